"""Fourier analysis of Boolean functions and of neurons on signs, which many studies use."""
