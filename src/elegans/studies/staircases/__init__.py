"""Staircases and exponents: which targets gradient descent learns, and from how many examples.

One whole number, computed from the target alone, predicts how the number of examples grows with the dimension: the
leap of a sum of parities, the information exponent of a function of one direction. Using each example twice changes
the number: to the label leap and the generative exponent.

Source: E. Abbe, E. Boix-Adsera and T. Misiakiewicz, COLT 2022 and 2023, https://arxiv.org/abs/2202.08658 and
https://arxiv.org/abs/2302.11055; G. Ben Arous, R. Gheissari and A. Jagannath, JMLR 2021,
https://arxiv.org/abs/2003.10409; A. Damian, L. Pillaud-Vivien, J. Lee and J. Bruna, COLT 2024,
https://arxiv.org/abs/2403.05529; Y. Dandi et al., ICML 2024, https://arxiv.org/abs/2402.03220; L. Arnaboldi et al.,
2024, https://arxiv.org/abs/2405.15459.
"""
