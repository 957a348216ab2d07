"""SGD Finds then Tunes Features in Two-Layer Neural Networks: A Case Study in the XOR Problem.

Minibatch SGD on both layers of a two-layer ReLU network learns the XOR of two coordinates from nearly linearly many
examples: first each neuron finds a signal direction, then the margins are balanced.

Source: M. Glasgow, ICLR 2024, https://arxiv.org/abs/2309.15111.
"""
