"""The Quantization Model of Neural Scaling.

Scaling laws from many skills that are learned one by one: if each is learned or not, and their frequencies fall as a
power, the mean loss falls as a power of width, samples and steps. Tested on many sparse parities behind control bits.

Source: E. J. Michaud, Z. Liu, U. Girit and M. Tegmark, NeurIPS 2023, https://arxiv.org/abs/2303.13506.
"""
