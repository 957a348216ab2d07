"""Combinatorial Tasks as Model Systems of Deep Learning (thesis), chapter 5: Hidden progress.

Networks of many kinds learn sparse parities online in about n^O(k) steps. Loss and accuracy stay flat while Fourier
gaps of the population gradient amplify the relevant weights.

Source: B. Barak, B. L. Edelman, S. Goel, S. Kakade, E. Malach and C. Zhang, "Hidden progress in deep learning: SGD
learns parities near the computational limit" (NeurIPS 2022), https://arxiv.org/abs/2207.08799.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
