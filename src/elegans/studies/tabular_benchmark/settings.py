"""What is trained on tables: sample sizes, networks and forests, at three scales."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise, product

from elegans.models import Init
from elegans.sweeps import Sweep
from elegans.tabular.datasets import BENCHMARK, load_table, table_names
from elegans.tabular.learners import Forest, TableLearner, TabularNetwork, exact
from elegans.tabular.table import Table
from elegans.tasks import Sample
from elegans.training import Trial

FRACTIONS = (1, 0.6, 0.3, 0.2, 0.1, 0.06, 0.03, 0.02, 0.01, 0.006, 0.003, 0.002, 0.001, 0.0006, 0.0003, 0.0002, 0.0001)
"""The published fractions of the training pool."""
LAPTOP_FRACTIONS = (1, 0.1, 0.03, 0.01)
LAPTOP_ROWS = 11_000
"""The largest sample at laptop scale."""
LAPTOP_COST = 1.4e8
"""The largest product of rows and weights at laptop scale: the cost of an epoch, up to a factor."""
PART_FRACTIONS = (0.1, 0.01)
PART_COST = 3e7
"""The same for the part that decides claims, which has more trials."""
FEW = 64
"""Larger samples of balanced classes contain both classes except for one draw in 10^18."""

Models = Sequence[TableLearner]


def sample_size(task: Table, fraction: float, largest: int | None = None) -> int:
    """Return how many rows a fraction of the training pool is, at most all but the validation part.

    Args:
        task: the table.
        fraction: above 0 and at most 1.
        largest: the largest sample, or None.
    """
    return min(round(fraction * task.pool_rows), task.training_rows, largest or task.training_rows)


def fraction_of(task: Table, size: int) -> float:
    """Return the published fraction to which a sample of this size corresponds, or else its share of the pool."""
    return next((each for each in FRACTIONS if sample_size(task, each) == size), size / task.pool_rows)


def networks(
    widths: Iterable[int],
    depth: int,
    inits: Iterable[str],
    *,
    decays: Iterable[float] = (0.0,),
    optimiser: str = "sgd",
    epochs: int = 100,
) -> list[TableLearner]:
    """Return networks of all widths, initialisations and weight decays, with hidden layers of equal width."""
    return [
        network((width,) * depth, init, decay=decay, optimiser=optimiser, epochs=epochs)
        for width, init, decay in product(widths, inits, decays)
    ]


def network(
    hidden: tuple[int, ...], init: str, *, decay: float = 0.0, optimiser: str = "sgd", epochs: int = 100
) -> TableLearner:
    """Return a network of given hidden layers."""
    settings = {"weight_decay": decay, "optimiser": optimiser, "epochs": epochs}
    return TabularNetwork(hidden=hidden, init=Init.parse(init), **settings)


def weights(model: TabularNetwork, inputs: int) -> int:
    """Return how many weights a network has."""
    sizes = [inputs, *model.hidden, 1]
    return sum((below + 1) * above for below, above in pairwise(sizes))


def sweep(
    names: Sequence[str],
    fractions: Sequence[float],
    models: Models,
    trials: int,
    *,
    largest: int | None = None,
    cost: float | None = None,
) -> Sweep:
    """Return the trials of some models on samples of some tables, the smallest fractions first.

    Left out are samples of fewer than 2 rows, seeds whose sample has only one class, sizes that another fraction
    already covers, and networks that cost too much.

    Args:
        names: the tables.
        fractions: of their training pools.
        models: what learns.
        trials: how many each.
        largest: the largest sample, or None.
        cost: the largest product of rows and weights of a network, or None.
    """
    parts: dict[tuple[str, int], list[tuple[Trial, Sequence[int]]]] = {}
    for fraction, name in product(sorted(fractions), names):
        task = Table(name=name)
        size = sample_size(task, fraction, largest)
        if size < 2 or (name, size) in parts:
            continue
        seeds = _seeds(task, size, trials)
        parts[name, size] = [
            (Trial(task=task, regime=Sample(size), model=model.replace("stopping", exact(task))), seeds)
            for model in models
            if seeds and _is_affordable(model, task, size, cost)
        ]
    return Sweep(tuple(part for group in parts.values() for part in group))


def _is_affordable(model: TableLearner, task: Table, size: int, cost: float | None) -> bool:
    if cost is None or not isinstance(model, TabularNetwork):
        return True
    return size * weights(model, task.input_size) <= cost


def _seeds(task: Table, size: int, trials: int) -> Sequence[int]:
    if size > FEW:
        return range(trials)
    return [seed for seed in range(trials) if _has_both(task, size, seed)]


@lru_cache(maxsize=2**14)
def _has_both(task: Table, size: int, seed: int) -> bool:
    trial = Trial(task=task, regime=Sample(size), model=Forest(stopping=exact(task)), seed=seed)
    second = task.data.y[task.draw(trial.key("task"))["rows"][:size]]
    return bool(second.any() and not second.all())


def smoke(trials: int, fractions: Sequence[float] = (0.3, 0.1)) -> Sweep:
    """Return small networks and forests on the two drawn tables."""
    models = [
        *networks((30, 100), 2, ("dense", "sparse:2", "sparse:4"), epochs=20),
        *networks((30,), 1, ("sparse:2",), epochs=20),
        *networks((30,), 2, ("sparse:2",), decays=(0.01,), epochs=20),
        *networks((30, 100), 2, ("dense", "sparse:2"), optimiser="adamw", epochs=20),
        Forest(n_estimators=10),
        Forest(n_estimators=10, max_depth=3),
    ]
    return sweep(("noisy-parity", "random-tree"), fractions, models, trials)


def laptop(trials: int, fractions: Sequence[float] = LAPTOP_FRACTIONS) -> Sweep:
    """Return a part of the published grid, and networks trained by AdamW, on the tables that need no download."""
    return sweep(table_names(), fractions, _few_models(), trials, largest=LAPTOP_ROWS, cost=LAPTOP_COST)


def part(trials: int, fractions: Sequence[float] = PART_FRACTIONS) -> Sweep:
    """Return the laptop's models on two fractions, without networks that cost much."""
    return sweep(table_names(), fractions, _few_models(), trials, largest=LAPTOP_ROWS, cost=PART_COST)


def decays(trials: int, fractions: Sequence[float] = PART_FRACTIONS[1:]) -> Sweep:
    """Return narrow networks with and without weight decay, by both optimisers, on small samples."""
    models = [
        model
        for optimiser in ("sgd", "adamw")
        for model in networks((100,), 2, ("sparse:2",), decays=(0.0, 0.01), optimiser=optimiser)
    ]
    return sweep(table_names(), fractions, models, trials)


def _few_models() -> list[TableLearner]:
    inits = ("sparse:2", "dense", "sparse:4")
    return [
        *networks((100, 300, 1000), 2, inits),
        Forest(),
        Forest(max_depth=10),
        Forest(max_features=4),
        *networks((100, 300, 1000, 3000), 1, inits[:2]),
        *networks((100, 300), 3, inits[:2]),
        *networks((100, 300), 2, inits, optimiser="adamw"),
        *networks((1000,), 2, inits[:2], optimiser="adamw"),
        *networks((100, 300), 1, inits[:1], optimiser="adamw"),
        *networks((100, 300), 2, inits[:1], decays=(0.01,)),
    ]


def paper(trials: int, fractions: Sequence[float] = FRACTIONS) -> Sweep:
    """Return the published grid on all 16 tasks; refused at once if one of them is not available."""
    names = [task.name for task in BENCHMARK]
    for name in names:
        load_table(name)
    inits, decays = ("dense", "sparse:2", "sparse:4"), (0.0, 0.01)
    widths = (100, 300, 1000, 3000, 10_000, 30_000)
    usual = [model for depth in (1, 2, 3) for model in networks(widths, depth, inits, decays=decays)]
    grid = product((None, 2, 3, 4, 10), (1, 2, 3, 4, "sqrt", None), (10, 100, 1000))
    forests = [Forest(max_depth=depth, max_features=most, n_estimators=trees) for depth, most, trees in grid]
    hidden = ((100_000, 10_000), (10_000, 100_000))
    widest = [network(sizes, init, decay=decay) for sizes, init, decay in product(hidden, inits, decays)]
    smaller = [task.name for task in BENCHMARK if task.number not in (2, 9)]
    return sweep(names, fractions, [*usual, *forests], trials) + sweep(smaller, fractions, widest, trials)
