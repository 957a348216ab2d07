"""The experiments on Markov chains learned in context (thesis, chapter 8)."""

from elegans.experiments.chains.curriculum import CURRICULUM
from elegans.experiments.chains.first_steps import FIRST_STEPS
from elegans.experiments.chains.laws import OUT_OF_DISTRIBUTION
from elegans.experiments.chains.minimal import INDUCTION_MINIMAL
from elegans.experiments.chains.one_layer import ONE_LAYER_FAILS
from elegans.experiments.chains.phases import INDUCTION_PHASES
from elegans.experiments.chains.pictures import ATTENTION_PICTURES
from elegans.experiments.chains.positions import POSITIONAL_PROFILE
from elegans.experiments.chains.symbols import MORE_SYMBOLS
from elegans.experiments.chains.trigrams import THREE_GRAMS
from elegans.experiments.chains.unigrams import UNIGRAMS_DELAY

EXPERIMENTS = (
    INDUCTION_PHASES,
    ATTENTION_PICTURES,
    POSITIONAL_PROFILE,
    OUT_OF_DISTRIBUTION,
    INDUCTION_MINIMAL,
    UNIGRAMS_DELAY,
    ONE_LAYER_FAILS,
    MORE_SYMBOLS,
    THREE_GRAMS,
    FIRST_STEPS,
    CURRICULUM,
)
"""In the order in which they are listed."""
