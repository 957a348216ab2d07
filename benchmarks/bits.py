"""One step of a transformer that is read at a class token: the bits engine beside the jax engine and PyTorch.

The published sizes (width 64, 16 heads, dropout 0.1), full-batch Adam on small samples and minibatches of fresh
examples. All contenders draw their dropout; PyTorch's loop finds its examples in memory. The bits engine is measured on
one core, the jax engine on all, PyTorch with one thread and with all. Networks that differ in their seed are trained in
turn on one core and side by side on all of them. Figures are milliseconds a step and network.
"""

from functools import partial
from statistics import median
from typing import Any

import numpy as np
import torch
from torch.nn import functional

import elegans as el
from benchmarks.measure import best, in_turns, ratios, spread
from benchmarks.pairs import Work, in_torch, in_turn, milliseconds, side_by_side, steps_in
from benchmarks.record import Result, Target, cores
from elegans.training.engines import ENGINES

SIZES = {"n=100, a sample of 100": (100, 100), "n=20, a sample of 20": (20, 20), "n=15, fresh 2048": (15, 2048)}
ONLINE = ("n=15, fresh 2048",)
SEEDS = 4
BATCHES = 4
"""How many minibatches of fresh examples lie ready for PyTorch."""
TORCH = "PyTorch plain"
ONE, JAX = "elegans bits", "elegans jax"
IN_TURN, SIDE_BY_SIDE = f"{SEEDS} seeds in turn", f"{SEEDS} seeds side by side"


class PlainLoop:
    """What a PyTorch user would write: keys and values of all tokens, one query, autograd and AdamW."""

    def __init__(self, trial: el.Trial) -> None:
        """Put the network and its examples on hand."""
        training, task, model = trial.training, trial.task, trial.model
        assert isinstance(training, el.Adam) and isinstance(model, el.BooleanTransformer)
        initial = model.initialise(trial.key("init"), task)
        self.parameters = {
            layer: {name: torch.nn.Parameter(torch.tensor(array)) for name, array in arrays.items()}
            for layer, arrays in initial.items()
        }
        self.dropout = partial(functional.dropout, p=model.dropout or 0.0)
        count = BATCHES if isinstance(trial.regime, el.Online) else 1
        index = np.arange(count * training.batch_size, dtype=np.uint32)
        x, y = task.examples(task.draw(trial.key("task")), trial.key("sample"), index)
        self.bits = torch.tensor(np.asarray(x) > 0).long().reshape(count, training.batch_size, -1)
        self.labels = torch.tensor(np.asarray(y)).reshape(count, -1)
        self.optimiser = torch.optim.AdamW(
            [array for arrays in self.parameters.values() for array in arrays.values()],
            lr=training.learning_rate,
            weight_decay=training.weight_decay,
        )

    def outputs(self, bits: torch.Tensor) -> torch.Tensor:
        """Return the outputs as a step of training sees them."""
        layers, count = self.parameters, len(bits)
        embedding, attention = layers["embedding"], layers["attention"]
        own = embedding["class"].expand(count, 1, -1)
        tokens = self.dropout(torch.cat([embedding["token"][bits], own], 1) + embedding["position"])
        inner = _normed(layers["norm1"], tokens)
        query = torch.einsum("bd,hda->bha", inner[:, -1], attention["query"]) + attention["query_bias"]
        key, value = (
            torch.einsum("bnd,hda->bhna", inner, attention[name]) + attention[f"{name}_bias"][:, None]
            for name in ("key", "value")
        )
        scores = (key @ query[..., None])[..., 0] / query.shape[-1] ** 0.5
        found = (self.dropout(scores.softmax(-1))[:, :, None] @ value)[:, :, 0]
        merged = torch.einsum("bha,had->bd", found, attention["output"]) + attention["output_bias"]
        z = tokens[:, -1] + self.dropout(merged)
        hidden = functional.gelu(_affine(layers["hidden1"], _normed(layers["norm2"], z)))
        z = z + self.dropout(_affine(layers["residual"], hidden))
        logits = _normed(layers["norm3"], z) @ layers["output"]["weight"].T
        return logits[:, 1] - logits[:, 0]

    def advance(self, steps: int) -> None:
        """Take steps."""
        for step in range(steps):
            place = step % len(self.bits)
            self.optimiser.zero_grad()
            functional.softplus(-self.labels[place] * self.outputs(self.bits[place])).mean().backward()
            self.optimiser.step()


def _normed(arrays: dict[str, torch.nn.Parameter], z: torch.Tensor) -> torch.Tensor:
    return functional.layer_norm(z, z.shape[-1:], arrays["scale"], arrays["shift"])


def _affine(arrays: dict[str, torch.nn.Parameter], z: torch.Tensor) -> torch.Tensor:
    return functional.linear(z, arrays["weight"], arrays["bias"])


def trial_of(size: str, seed: int = 0) -> el.Trial:
    """Return the trial that all contenders train."""
    n, count = SIZES[size]
    training = {"kind": "adam", "steps": 2**20, "batch_size": count, "loss": "logistic", "batches": "epochs"}
    return el.Trial(
        task=el.SparseParity(n=n, k=2),
        regime="online" if size in ONLINE else el.Sample(count),
        model=el.BooleanTransformer(dropout=0.1),
        training=training,
        seed=seed,
    )


def run(*, quick: bool) -> Result:
    """Measure every contender at every size."""
    repetitions, budget = (3, 0.1) if quick else (9, 0.3)
    found = {}
    for size in SIZES:
        contenders = contenders_of(size)
        steps = {contender: steps_in(work, budget) for contender, work in contenders.items()}
        measures = {contender: partial(milliseconds, work, steps[contender]) for contender, work in contenders.items()}
        found[size] = {"steps": steps, "milliseconds_per_step_and_network": in_turns(measures, repetitions)}
    return Result(
        settings={
            **trial_of(next(iter(SIZES))).model_dump(mode="json", exclude={"seed": True}),
            "sizes": SIZES,
            "repetitions": repetitions,
            "seconds_per_repetition": budget,
        },
        repetitions=found,
        summary=[_row(size, found[size]) for size in SIZES],
        targets=[target for size in SIZES for target in _targets(size, found[size])],
    )


def contenders_of(size: str) -> dict[str, Work]:
    """Return by name what takes so many steps; those of several networks take them with each."""
    trials = [trial_of(size, seed) for seed in range(SEEDS)]
    engine, general = ENGINES["bits"], ENGINES["jax"]
    states = [engine.init([trial]) for trial in trials]
    loop, state = PlainLoop(trials[0]), general.init(trials[:1])

    def in_jax(steps: int) -> None:
        nonlocal state
        state = general.advance(state, steps)

    turn = partial(in_turn, engine)
    return {
        **{f"{TORCH}, threads {threads}": partial(in_torch, loop, threads) for threads in (1, cores())},
        JAX: in_jax,
        ONE: partial(turn, states[:1]),
        IN_TURN: partial(turn, states),
        SIDE_BY_SIDE: partial(side_by_side, engine, states),
    }


def _figures(found: dict[str, Any]) -> dict[str, list[float]]:
    figures: dict[str, list[float]] = found["milliseconds_per_step_and_network"]
    together = {IN_TURN, SIDE_BY_SIDE}
    return {
        contender: [figure / SEEDS if contender in together else figure for figure in taken]
        for contender, taken in figures.items()
    }


def _row(size: str, found: dict[str, Any]) -> dict[str, str]:
    figures, (n, count) = _figures(found), SIZES[size]
    alone, all_cores = (f"{TORCH}, threads {threads}" for threads in (1, cores()))
    fastest = best(figures, [alone, all_cores])
    return {
        "size": size,
        "PyTorch, one core": spread(figures[alone]),
        "PyTorch, all cores": spread(figures[all_cores]),
        "elegans jax, all cores": spread(figures[JAX]),
        "elegans bits, one core": spread(figures[ONE]),
        "microseconds a token": spread([1000 * figure / (count * (n + 1)) for figure in figures[ONE]]),
        IN_TURN: spread(figures[IN_TURN]),
        SIDE_BY_SIDE: spread(figures[SIDE_BY_SIDE]),
        "PyTorch / bits, one core": spread(ratios(figures[alone], figures[ONE])),
        "PyTorch / bits side by side": spread(ratios(figures[fastest], figures[SIDE_BY_SIDE])),
    }


def _targets(size: str, found: dict[str, Any]) -> list[Target]:
    figures = _figures(found)
    faster = median(ratios(figures[f"{TORCH}, threads 1"], figures[ONE]))
    return [Target(f"PyTorch's plain loop / a step, one core, {size}", faster, 2.0, "x", at_least=True)]
