"""Epochs of networks for tables compared with a plain PyTorch loop, and the cost of further members."""

import time
from collections.abc import Callable
from itertools import pairwise
from statistics import median

import numpy as np
import torch

from benchmarks.measure import in_turns, ratios, seconds, short, spread
from benchmarks.record import Result, at_least, at_most
from elegans.tabular import Networks, Settings, SharedSettings, init_networks, init_shared
from elegans.tabular.encoding import Bins, Encoded, Inputs, RawRows

ROWS, FEATURES = 10_000, 10
EPOCHS = 100
WIDE = (1000, 1000)
MEMBERS, WIDTH = 20, 300
LIMIT = 5.0
"""The target cost of twenty members, in multiples of one member's."""
LOOKED_UP = ((10, 32), (50, 8), (50, 32))
"""Columns and bins of the tables whose first layer is measured in both forms."""

X = np.random.default_rng(0).normal(size=(ROWS, FEATURES)).astype(np.float32)
Y = X[:, 0] * X[:, 1] > 0


def run(*, quick: bool) -> Result:
    """Train alternately, one epoch per turn; a fit of 100 epochs is 100 of them."""
    repetitions = 3 if quick else 7
    summary, targets, figures = [], [], {}
    for optimiser in ("sgd", "adamw"):
        settings = Settings(hidden=WIDE, optimiser=optimiser)
        found = in_turns(
            {"elegans": _epochs(init_networks(settings, [0], FEATURES), 1), "PyTorch plain": plain_epoch(settings)},
            repetitions,
        )
        faster = ratios(found["PyTorch plain"], found["elegans"])
        what = f"width 1000, depth 2, {optimiser}"
        figures[what] = found
        summary.append(_row(what, found["elegans"], found["PyTorch plain"], faster))
        targets.append(at_least(f"a fit beside a plain PyTorch loop, {what}", median(faster), 1.0, "x"))
    for depth in (1, 2, 3):
        settings = Settings(hidden=(WIDTH,) * depth)
        one, many = (init_networks(settings, range(count), FEATURES) for count in (1, MEMBERS))
        found = in_turns(
            {
                "one member": _epochs(one, 8 if depth == 1 else 2),
                "20 members": _epochs(many, 1),
                "PyTorch plain": plain_epoch(settings),
            },
            repetitions,
        )
        what = f"width 300, depth {depth}, adamw"
        cost = ratios(found["20 members"], found["one member"])
        figures[what] = found
        row = _row(
            what, found["one member"], found["PyTorch plain"], ratios(found["PyTorch plain"], found["one member"])
        )
        summary.append(row | {"20 members, s a fit": _fits(found["20 members"]), "20 members / one": spread(cost)})
        targets.append(at_most(f"20 members beside one, {what}", median(cost), LIMIT, "x"))
    for columns_of, bins in LOOKED_UP:
        found = in_turns(looked_up(columns_of, bins), repetitions)
        what = f"shared trunk, {columns_of} columns, {bins} bins"
        faster = ratios(found["dense product"], found["look-up"])
        figures[what] = found
        summary.append({"networks": what, "dense product / look-up": short(median(faster))})
        targets.append(at_least(f"looking bins up beside a dense product, {what}", median(faster), 1.0, "x"))
    columns = list(dict.fromkeys(column for row in summary for column in row))
    return Result(
        settings={"rows": ROWS, "features": FEATURES, "epochs": EPOCHS, "batch size": 256, "members": MEMBERS},
        repetitions=figures,
        summary=[{column: row.get(column, "") for column in columns} for row in summary],
        targets=targets,
    )


def looked_up(columns: int, bins: int) -> dict[str, Callable[[], float]]:
    """Return functions that train an epoch with a first layer that looks bins up, and with one that multiplies."""
    x = np.random.default_rng(0).normal(size=(1024, columns))
    y = (x[:, :1] * x[:, 1:2] > 0).astype(float)
    encoding = Bins(bins).fit(RawRows(x), range(columns))
    encoded = encoding.transform(RawRows(x), "float32")
    none, owner = np.zeros((len(x), 0), np.int32), encoding.inputs.owner.astype(np.int32)
    dense = Inputs(columns, np.zeros((0, 3), np.int32), owner, np.zeros(0, np.int32))
    wide = Encoded(none.astype(np.uint16), none.astype(float), encoding.inputs.expand(encoded), none)

    def epoch(inputs: Inputs, rows: Encoded) -> Callable[[], float]:
        networks = init_shared(SharedSettings(epochs=1), list(range(16)), inputs, 1)
        return lambda: seconds(lambda: networks.train(rows, y, threads=1))

    return {"look-up": epoch(encoding.inputs, encoded), "dense product": epoch(dense, wide)}


def plain_epoch(settings: Settings) -> Callable[[], float]:
    """Return a function that trains a fresh PyTorch network for an epoch, as in a tutorial, and returns the seconds."""
    torch.manual_seed(0)
    train = plain_training(torch.from_numpy(X), torch.from_numpy(Y.astype(np.float32)), settings)[1]

    def epoch() -> float:
        begun = time.perf_counter()
        train(1)
        return time.perf_counter() - begun

    epoch()
    return epoch


def plain_training(
    x: torch.Tensor, y: torch.Tensor, settings: Settings
) -> tuple[torch.nn.Module, Callable[[int], None]]:
    """Return a PyTorch network for rows of two classes, and the loop that trains it for some epochs."""
    sizes = [x.shape[1], *settings.hidden]
    layers: list[torch.nn.Module] = []
    for fan_in, fan_out in pairwise(sizes):
        layers += [torch.nn.Linear(fan_in, fan_out), torch.nn.ReLU()]
    network = torch.nn.Sequential(*layers, torch.nn.Linear(sizes[-1], 1))
    kind = {"sgd": torch.optim.SGD, "adamw": torch.optim.AdamW}[settings.optimiser]
    optimiser = kind(network.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay)
    loss = torch.nn.BCEWithLogitsLoss()

    def train(epochs: int) -> None:
        for _ in range(epochs):
            order = torch.randperm(len(x))
            for begin in range(0, len(x), settings.batch_size):
                index = order[begin : begin + settings.batch_size]
                optimiser.zero_grad()
                loss(network(x[index])[:, 0], y[index]).backward()
                optimiser.step()

    return network, train


def _epochs(networks: Networks, count: int) -> Callable[[], float]:
    """Return a function that trains networks for some epochs and returns the seconds of one."""

    def epochs() -> float:
        begun = time.perf_counter()
        networks.train(X, Y, epochs=count)
        return (time.perf_counter() - begun) / count

    epochs()
    return epochs


def _fits(seconds: list[float]) -> str:
    return spread([EPOCHS * each for each in seconds])


def _row(what: str, ours: list[float], theirs: list[float], faster: list[float]) -> dict[str, str]:
    return {
        "networks": what,
        "elegans, s a fit": _fits(ours),
        "PyTorch plain, s a fit": _fits(theirs),
        "PyTorch / elegans": short(median(faster)),
    }
