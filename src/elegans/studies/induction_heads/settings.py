"""Markov chains learned in context: networks, trainings and measures that the experiments share.

What the thesis leaves open, or prints inconsistently, is settled as in the code published with the article: layers with
norms, AdamW with moment decays 0.9 and 0.95 and a weight decay of 0.1 on matrices only, 1000 held-out sequences. The
default learning rate, 1e-3, is the one at which phases occur after as many steps as the thesis shows; at the learning
rate that it states, 3e-5, the same curve takes about 16 times as long. Time is measured in sequences, not steps.

Source: thesis, chapter 8 and appendix E.2; Edelman, Edelman, Goel, Malach and Tsilivis, "The evolution of statistical
induction heads: in-context learning Markov chains" (NeurIPS 2024).
"""

from collections.abc import Callable
from typing import Any

from elegans.experiments import Scale
from elegans.models import AttentionOnly
from elegans.probes import Probe
from elegans.stopping import StoppingRule
from elegans.studies.induction_heads.models import MinimalAttention
from elegans.studies.induction_heads.probes import ChainLosses
from elegans.sweeps import Sweep
from elegans.tasks import MarkovChains, Online
from elegans.training import SGD, Adam, Trial

NEVER = StoppingRule(error=0, examples=128, every=10**6, stop=False)
"""No error rate ends a training: predictions of a random token are never all correct."""
THESIS_RATE = 3e-5
"""The learning rate of transformers that the thesis states."""


def transformer(
    k: int = 2,
    length: int = 100,
    *,
    prior: Any = "dirichlet",
    batch_size: int = 64,
    steps: int = 2000,
    learning_rate: float = 1e-3,
    **model: Any,
) -> Trial:
    """Return an attention-only transformer, of two layers of one head and width 16 by default, and its training.

    Args:
        k: the number of symbols.
        length: of a sequence.
        prior: the distribution of chains.
        batch_size: in sequences.
        steps: of training.
        learning_rate: of AdamW.
        model: further arguments of ``AttentionOnly``.
    """
    network = AttentionOnly(**model)
    training = Adam(
        learning_rate=learning_rate,
        beta2=0.95,
        weight_decay=0.1,
        layers={name: {"weight_decay": 0} for name in network.undecayed},
        batch_size=batch_size,
        steps=steps,
        loss="cross-entropy",
        stopping=NEVER,
    )
    task = MarkovChains(k=k, length=length, prior=prior)
    return Trial(task=task, regime=Online(), model=network, training=training)


def main_networks(trials: int) -> Sweep:
    """Return the thesis' transformers on two and three symbols, at thirty times its learning rate."""
    return Sweep.of((transformer(2, steps=2000), transformer(3, steps=1000)), trials)


def settled_networks(trials: int) -> Sweep:
    """Return both at the learning rate that matches the printed axis, until losses have settled."""
    return Sweep.of((transformer(2, steps=2000), transformer(3, steps=1500)), trials)


def thesis_networks(trials: int) -> Sweep:
    """Return the thesis' transformers on two and three symbols, at its learning rate."""
    return Sweep.of((transformer(k, steps=20_000, learning_rate=THESIS_RATE) for k in (2, 3)), trials)


def too_short(steps: int) -> Scale:
    """Return the scale ``smoke``: a transformer on 16 tokens, for too few steps to learn anything."""
    return Scale(lambda trials: Sweep.of([transformer(length=16, batch_size=16, steps=steps)], trials), trials=1)


def loss_probes(measurements: int, *, least: int = 1, **options: Any) -> Callable[[Trial], tuple[Probe, ...]]:
    """Return the probes of an experiment that measures losses and distances alone.

    Args:
        measurements: about how often in a training.
        least: the smallest number of steps between two measurements.
        options: further arguments of ``ChainLosses``.
    """
    return lambda one: (ChainLosses(every=max(one.steps // measurements, least), **options),)


def minimal(
    k: int = 2,
    length: int = 100,
    *,
    batch_size: int = 64,
    steps: int = 2000,
    learning_rate: float = 2e-3,
    **model: Any,
) -> Trial:
    """Return the minimal model and its training by plain SGD; arguments are as for ``transformer``."""
    training = SGD(
        learning_rate=learning_rate, batch_size=batch_size, steps=steps, loss="cross-entropy", stopping=NEVER
    )
    task = MarkovChains(k=k, length=length)
    return Trial(task=task, regime=Online(), model=MinimalAttention(**model), training=training)
