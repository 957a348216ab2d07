"""Linear regression in context by linear attention.

A sequence shows examples of a linear function and asks for its value at one more input. One layer of linear attention
learns to answer with one preconditioned step of gradient descent, by a single drop of the loss or a staircase of
drops, and needs about as many training tasks as there are dimensions to do so for new tasks.

Source: R. Zhang, S. Frei and P. L. Bartlett, 2023, https://arxiv.org/abs/2306.09927; J. von Oswald et al., 2023,
https://arxiv.org/abs/2212.07677; Y. Zhang, A. K. Singh, P. E. Latham and A. Saxe, 2025,
https://arxiv.org/abs/2501.16265; A. Raventós, M. Paul, F. Chen and S. Ganguli, 2023,
https://arxiv.org/abs/2306.15063; Y. M. Lu et al., 2024, https://arxiv.org/abs/2405.11751.
"""
