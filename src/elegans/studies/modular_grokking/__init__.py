"""Grokking: Generalization Beyond Overfitting on Small Algorithmic Datasets, and the works that explained it.

Networks that learn an operation modulo p from a part of its table fit that part long before they know the rest. What
decides the delay, what can be measured meanwhile, and what networks end as is known best for two-layer networks.

Source: A. Power, Y. Burda, H. Edwards, I. Babuschkin and V. Misra, 2022, https://arxiv.org/abs/2201.02177. With: V.
Thilak et al., "The slingshot mechanism", 2022, https://arxiv.org/abs/2206.04817; N. Nanda et al., "Progress measures
for grokking via mechanistic interpretability", ICLR 2023, https://arxiv.org/abs/2301.05217; A. Gromov, "Grokking
modular arithmetic", 2023, https://arxiv.org/abs/2301.02679.
"""
