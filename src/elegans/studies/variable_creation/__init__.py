"""Combinatorial Tasks as Model Systems of Deep Learning (thesis), chapter 4: Sparse variable creation.

Self-attention heads of bounded norm represent sparse functions of their context, and the number of examples that they
need grows only logarithmically with the length of the context.

Source: B. L. Edelman, S. Goel, S. Kakade and C. Zhang, "Inductive biases and variable creation in self-attention
mechanisms" (ICML 2022), https://arxiv.org/abs/2110.10090.
"""
