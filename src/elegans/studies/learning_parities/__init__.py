"""Learning Parities with Neural Networks.

Parities on a distribution that mixes uniform inputs with inputs constant on the support are learned by gradient
descent on a two-layer network, while every predictor linear in fixed features keeps a hinge loss of about one half.

Source: A. Daniely and E. Malach, NeurIPS 2020, https://arxiv.org/abs/2002.07400.
"""
