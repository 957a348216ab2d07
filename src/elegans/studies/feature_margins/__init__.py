"""Combinatorial Tasks as Model Systems of Deep Learning (thesis), chapter 7: Feature emergence via margin maximisation.

On modular addition, sparse parities and finite groups, networks with the largest normalised margin have neurons of a
single Fourier frequency, sign vectors on the support, and single irreducible representations.

Source: D. Morwani, B. L. Edelman, C.-A. Oncescu, R. Zhao and S. Kakade, "Feature emergence via margin maximization:
case studies in algebraic tasks" (ICLR 2024), https://arxiv.org/abs/2311.07568.
"""
