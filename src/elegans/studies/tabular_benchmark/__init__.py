"""Pareto Frontiers in Deep Feature Learning: tabular benchmark.

Wide, sparsely initialised networks trained on small tables, compared with random forests on a published benchmark.

Source: B. L. Edelman, S. Goel, S. Kakade, E. Malach and C. Zhang, NeurIPS 2023, https://arxiv.org/abs/2309.03800.
"""
