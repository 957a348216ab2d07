"""The published settings (appendix C.1) and the success frontier's grid, which the experiments vary.

Offline learning of sparse parities: a two-layer network is given a fixed sample of m examples of a k-sparse parity
on n signs, and SGD trains all its parameters. Where the paper is silent: hinge loss (the theory's); non-zero
initial weights of 1; biases and output weights as in the dense initialisation; minibatches drawn with replacement;
success checked every 200 steps (250 at the scales part and paper); support, sample and network resampled for each
trial.
"""

from collections.abc import Iterable, Sequence

from elegans.models import MLP, SparseInit
from elegans.stopping import StoppingRule
from elegans.sweeps import Sweep, grid
from elegans.tasks import Online, SparseParity
from elegans.training import SGD, Trial

INITS = ("dense", "sparse:2")
SIZES = (*(factor * 10**power for power in range(2, 6) for factor in (1, 2, 3, 6)), 10**6)
WIDTHS = (10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000)


def trial(n: int, k: int, steps: int, every: int = 200) -> Trial:
    """Return the trial that the experiments vary; success is checked ``every`` so many steps."""
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


def spaced(first: float, last: float, per_octave: int) -> tuple[int, ...]:
    """Return whole numbers from first to last, evenly spaced on a logarithmic scale."""
    sizes, size = [], float(first)
    while size <= last * 1.001:
        sizes.append(round(size))
        size *= 2 ** (1 / per_octave)
    return tuple(sizes)


def regimes(sizes: Iterable[int]) -> list[str]:
    """Return a regime for each sample size, then online training."""
    return [*(f"sample:{size}" for size in sizes), "online"]


def chosen(base: Trial, networks: Iterable[tuple[str, int, str]], trials: int) -> Sweep:
    """Return trials of single networks, by initialisation, width and regime, in the order in which they run."""
    names = ("model.init", "model.width", "regime")
    cells = [grid(base, {name: [value] for name, value in zip(names, network, strict=True)}) for network in networks]
    return sum(cells, Sweep(())).with_seeds(trials)


def panels(base: Trial, sizes: Iterable[int], widths: Sequence[int], trials: int) -> Sweep:
    """Return one panel for each initialisation: sample sizes, in the order in which they run, and online, by widths.

    Columns run one after another, each with all widths and both initialisations: a run cut short has whole columns.
    """
    return grid(base, {"regime": regimes(sizes), "model.width": widths, "model.init": INITS}, seeds=trials)
