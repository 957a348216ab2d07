"""An induction head that forms, in a minute."""

import numpy as np

from elegans.phenomena import Chart, Matrix, Moment, Phenomenon, Story
from elegans.phenomena.base import Train, first_below
from elegans.studies.induction_heads.probes import AttentionMaps, ChainLosses
from elegans.studies.induction_heads.settings import transformer

K, LENGTH, BATCH, STEPS, EVERY, SHOWN = 3, 60, 64, 1500, 25, 20
"""Symbols, tokens of a sequence, sequences of a minibatch, steps, steps between measurements, tokens in the maps."""
