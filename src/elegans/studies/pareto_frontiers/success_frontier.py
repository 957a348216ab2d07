"""Pareto frontiers in deep feature learning: data, compute, width and luck.

Offline sparse parity learning: a two-layer network is given a fixed sample of m examples of a k-sparse parity
on n signs, and trained by SGD on all its parameters. More data or a larger network? The success frontier
shows how one pays for the other, and what a sparse initialisation adds.

What the paper leaves open is settled so: hinge loss (none is named for the experiments; the theory uses it);
non-zero initial weights of 1; biases and output weights as with the dense initialisation; minibatches drawn
with replacement; success checked every 200 steps (250 at the paper's scale); support, sample and network drawn
anew for each trial. The other experiments of the paper (``zoom.py`` and its neighbours) vary the same trial.
"""

from collections.abc import Sequence
from functools import reduce
from operator import add

from matplotlib.figure import Figure

from elegans.analysis import cells
from elegans.experiments.base import Experiment, Scale
from elegans.experiments.results import Tables, one_table
from elegans.models import MLP, SparseInit
from elegans.plots import figure_of, success_frontier
from elegans.stopping import StoppingRule
from elegans.sweeps import Sweep, grid
from elegans.tasks import Online, SparseParity
from elegans.training import SGD, Trial

INITS = ("dense", "sparse:2")
SIZES = (*(factor * 10**power for power in range(2, 6) for factor in (1, 2, 3, 6)), 10**6)
WIDTHS = (10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000)


def trial(n: int, k: int, steps: int, every: int = 200) -> Trial:
    """Return the trial that the grid varies, with the paper's hyperparameters (appendix C.1)."""
    return Trial(
        task=SparseParity(n=n, k=k),
        regime=Online(),
        model=MLP(width=1000, init=SparseInit(2)),
        training=SGD(
            learning_rate=0.1,
            weight_decay=0.01,
            batch_size=32,
            steps=steps,
            loss="hinge",
            stopping=StoppingRule(error=0.1, examples=10_000, every=every),
        ),
    )


def panels(base: Trial, sizes: Sequence[int], widths: Sequence[int], trials: int) -> Sweep:
    """Return one (n, k): a panel for each initialisation, with an online column.

    Column follows column, each with all widths and both initialisations: a run cut short has whole columns.

    Args:
        base: the trial that is varied.
        sizes: the sample sizes, in the order of work.
        widths: the numbers of hidden neurons.
        trials: how many trials a cell.
    """
    regimes = [*(f"sample:{size}" for size in sizes), "online"]
    return grid(base, {"regime": regimes, "model.width": widths, "model.init": INITS}, seeds=trials)


def smoke(trials: int) -> Sweep:
    """Return a corner of the frontier: wide sparse networks solve (30, 3) where narrow ones do not."""
    return panels(trial(n=30, k=3, steps=1600), (1000, 300), (3, 30, 1000), trials)


def laptop(trials: int) -> Sweep:
    """Return the (50, 3) panels up to width 1000, with a fifth of the paper's steps, decisive columns first."""
    sizes = (1000, 600, 2000, 800, 1500, 3000, 300, 6000, 10_000, 30_000)
    return panels(trial(n=50, k=3, steps=20_000), sizes, WIDTHS[:5], trials)


def paper(trials: int) -> Sweep:
    """Return all of figure 4: 24 panels, those of (50, 3) first, and widths up to 3000 before wider ones."""
    parts = [
        panels(trial(n, k, steps=100_000, every=250), SIZES, widths, trials)
        for widths in (WIDTHS[:6], WIDTHS[6:])
        for n in range(50, 301, 50)
        for k in (3, 4)
    ]
    return reduce(add, parts)


def plot(tables: Tables) -> Figure:
    """Draw the success frontier and return its figure."""
    return figure_of(success_frontier(tables["table"]))


EXPERIMENT = Experiment(
    name="success-frontier",
    shows="More data or a larger network: wide networks need fewer examples, sparsely initialised ones fewer still",
    source="figures 1 (left) and 4",
    scales={
        "smoke": Scale(smoke, trials=8, time="about 5 seconds"),
        "laptop": Scale(laptop, trials=20, time="about a minute on 2 cores with AVX-512"),
        "paper": Scale(
            paper,
            trials=50,
            time="(50, 3) up to width 3000 comes first: about 40 minutes on 2 cores with AVX-512; all of it: months",
        ),
    },
    analyse=one_table(cells),
    plot=plot,
)
