"""The published setting of many parities, and a smaller one for a laptop.

Published: 500 parities of 3 of 100 bits, alpha = 0.4, one hidden layer of ReLUs, Adam at 0.001 on minibatches of
20,000. Half as many steps, and other widths and sample sizes, than in figure 2 (200,000 steps at 30 widths from 10 to
500, P-scaling-15; samples, D-scaling-6): those of two other experiments of the authors. The source's networks have two
outputs and the cross-entropy, ours one and the logistic loss: the same loss of the difference of the two.

Source: Michaud et al. (2023), section 3; https://github.com/ejmichaud/quantization-model, experiments P-scaling-17 and
D-scaling-11.
"""

import numpy as np
import pandas as pd

from elegans.experiments import Results, Scale
from elegans.models import MLP
from elegans.probes import Probe
from elegans.stopping import StoppingRule
from elegans.studies.neural_scaling.probes import GradientClusters, SubtaskLosses
from elegans.sweeps import Sweep
from elegans.tasks import MultitaskParity, Online, Sample
from elegans.training import Adam, Trial

ALPHA = 0.4
LEARNING_RATE = 0.001
PUBLISHED = MultitaskParity(n=100, k=3, tasks=500, alpha=ALPHA)
SMALL = MultitaskParity(n=32, k=3, tasks=100, alpha=ALPHA)
TINY = MultitaskParity(n=16, k=2, tasks=5, alpha=ALPHA)
NETWORKS = {
    "smoke": (TINY, 64, 2000, 200),
    "laptop": (SMALL, 200, 40_000, 1000),
    "paper": (PUBLISHED, 500, 100_000, 20_000),
}
"""Task, width, steps and batch size of each scale."""
WIDTHS = {
    "smoke": (8,),
    "laptop": (4, 8, 16, 32, 64, 128),
    "paper": tuple(int(width) for width in np.geomspace(10, 300, 20).round(9)),
}
"""Smaller widths of each scale; those of ``paper`` are P-scaling-17's."""
SAMPLES = {
    "smoke": (300, 1000),
    "laptop": (10_000, 30_000, 100_000, 300_000, 1_000_000),
    "paper": tuple(int(size) for size in np.geomspace(1000, 10_000_000, 25).round(3)),
}
"""Sample sizes of each scale; those of ``paper`` are D-scaling-11's."""


def trial(task: MultitaskParity, *, width: int, steps: int, batch_size: int, samples: int | None = None) -> Trial:
    """Return a network on fresh examples, or on a sample in shuffled epochs, that trains until its steps are done.

    Args:
        task: many parities.
        width: the number of neurons.
        steps: the number of steps.
        batch_size: the number of examples in a minibatch, at most the sample's.
        samples: the number of training examples, or None for fresh ones.
    """
    training = Adam(
        learning_rate=LEARNING_RATE,
        loss="logistic",
        steps=steps,
        batch_size=min(batch_size, samples or batch_size),
        batches="epochs" if samples else "replacement",
        stopping=StoppingRule(error=0, stop=False, every=steps, examples=1000),
    )
    return Trial(task=task, regime=Sample(samples) if samples else Online(), model=MLP(width=width), training=training)


def losses(one: Trial) -> SubtaskLosses:
    """Return the probe of all subtasks' losses that all experiments share, so that one training serves them all."""
    assert one.training is not None
    return SubtaskLosses(every=one.training.steps // 400)


def probes(one: Trial) -> tuple[Probe, ...]:
    """Return the losses of all subtasks, and clusters of examples of the ten most frequent ones."""
    assert one.training is not None and isinstance(one.task, MultitaskParity)
    return losses(one), GradientClusters(subtasks=min(10, one.task.tasks), every=one.training.steps // 5)


def task_of(results: Results) -> MultitaskParity:
    """Return the task, which is the same in all trials of an experiment."""
    task = results.sweep.parts[0][0].task
    assert isinstance(task, MultitaskParity)
    return task


def theory_setting(results: Results) -> pd.DataFrame:
    """Return a table of one row with what theory needs: ``tasks`` and ``alpha``."""
    task = task_of(results)
    return pd.DataFrame([{"tasks": task.tasks, "alpha": task.alpha}])


def scale(name: str, trials: int, part: str = "") -> Scale:
    """Return a scale of networks on fresh examples, ``smoke``, ``laptop`` or ``paper``; see ``Scale`` for ``part``."""
    task, width, steps, batch = NETWORKS[name]
    return Scale(Sweep(((trial(task, width=width, steps=steps, batch_size=batch), (0,)),)), trials=trials, part=part)
