"""How the best learning rate moves with width.

In the maximal-update parametrisation the learning rate that is best for a narrow network is best for a wide one; in the
standard one it must fall. New here: whether this survives a sparse initialisation, and from which width on.

Source: G. Yang and E. Hu, ICML 2021, https://arxiv.org/abs/2011.14522; G. Yang, E. Hu et al., 2022,
https://arxiv.org/abs/2203.03466; S. Hayou, 2025, https://arxiv.org/abs/2511.01734; M. Haas et al., 2025,
https://arxiv.org/abs/2505.22491.
"""
