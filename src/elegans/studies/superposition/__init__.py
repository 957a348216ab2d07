"""Toy models of superposition: more features than neurons, and how far a learning coefficient can be estimated.

Networks of six features in two dimensions arrange them as polygons, whose losses and learning coefficients are known
in closed form. They therefore test the estimator by Langevin dynamics, together with quadratic potentials, normal
crossings and reduced-rank regression.

Source: N. Elhage et al., 2022, https://arxiv.org/abs/2209.10652; Z. Chen et al., 2023,
https://arxiv.org/abs/2310.06301; E. Lau et al., 2023, https://arxiv.org/abs/2308.12108; M. Aoyagi and S. Watanabe,
Neural Networks 18, 2005.
"""
