"""Combinatorial Tasks as Model Systems of Deep Learning (thesis), chapter 8: Statistical induction heads.

Attention-only transformers that predict Markov chains in context learn in phases: uniform guesses, a plateau at the
unigram strategy, and a sudden drop to bigrams when an induction head forms.

Source: B. L. Edelman, E. Edelman, S. Goel, E. Malach and N. Tsilivis, "The evolution of statistical induction heads:
in-context learning Markov chains" (NeurIPS 2024), https://arxiv.org/abs/2402.11004.
"""
