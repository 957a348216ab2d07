"""Pareto Frontiers in Deep Feature Learning: Data, Compute, Width, and Luck.

Sparse parities are learned offline by small networks: success trades off examples, steps, width and luck, and sparse
initialisation moves the frontier. The theory bounds what one gradient step on each neuron can select.

Source: B. L. Edelman, S. Goel, S. Kakade, E. Malach and C. Zhang, NeurIPS 2023, https://arxiv.org/abs/2309.03800.
"""
