"""Trainings that take one step of the hidden weights on the whole sample and then fit the readout."""
