"""One step of the published transformer on all training pairs mod 113: pairs engine, jax engine and PyTorch.

The network that grokked modular addition (width 128, 4 heads, MLP of 512), AdamW on 3,830 pairs in full batches.
PyTorch computes the query of the last token only, as the engines do, plain and compiled. NumPy's products are the nine
of the MLP and the output, of prepared arrays; they omit the rest of a step. For the method, see ``beside``.
"""

from functools import partial
from statistics import median
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits
from torch.nn import functional

import elegans as el
from benchmarks.beside import AdamLoop, Contest, Figures, Work, in_torch
from benchmarks.measure import ratios, spread
from benchmarks.record import Result, Target, at_most, cores

P, FRACTION = 113, 0.3
CASES: dict[str, tuple[()]] = {"mod 113, 3,830 pairs": ()}
PRODUCTS = "NumPy's products"
COMPILED = "PyTorch compiled, threads"


class PlainLoop(AdamLoop):
    """Three tokens, one query, and an MLP."""

    def __init__(self, trial: el.Trial) -> None:
        """Prepare the network and the pairs."""
        super().__init__(trial)
        regime, task = trial.regime, trial.task
        assert isinstance(regime, el.Split) and isinstance(task, el.ModularAddition)
        index = np.arange(trial.training.batch_size, dtype=np.uint32)  # type: ignore[union-attr]
        pairs = task.pairs(regime.numbers(task, trial.key("sample"), "sample", index))
        self.pairs = torch.tensor(np.stack([pairs // P, pairs % P], axis=1).astype(np.int64))
        self.labels = self.pairs.sum(1) % P

    def loss(self, step: int) -> torch.Tensor:
        """Return the cross-entropy."""
        return functional.cross_entropy(self.outputs(), self.labels)

    def outputs(self) -> torch.Tensor:
        """Return the outputs on all pairs."""
        embedding, attention = self.parameters["embedding"], self.parameters["attention"]
        equals = embedding["equals"].expand(len(self.pairs), 1, -1)
        tokens = torch.cat([embedding["number"][self.pairs], equals], 1) + embedding["position"]
        query = torch.einsum("bd,hda->bha", tokens[:, 2], attention["query"])
        key, value = (torch.einsum("btd,hda->bhta", tokens, attention[name]) for name in ("key", "value"))
        share = ((key @ query[..., None])[..., 0] / query.shape[-1] ** 0.5).softmax(-1)
        mixed = (share[:, :, None] @ value)[:, :, 0]
        z = tokens[:, 2] + torch.einsum("bha,had->bd", mixed, attention["output"])
        hidden, residual = self.parameters["hidden"], self.parameters["residual"]
        inner = torch.relu(functional.linear(z, hidden["weight"], hidden["bias"]))
        return (z + functional.linear(inner, residual["weight"], residual["bias"])) @ self.parameters["output"][
            "weight"
        ].T


class CompiledLoop(PlainLoop):
    """The same with the forward and the backward pass compiled."""

    def __init__(self, trial: el.Trial) -> None:
        """Prepare the network; the first step compiles it."""
        super().__init__(trial)
        self.outputs = torch.compile(super().outputs)  # type: ignore[method-assign]


def trial_of(seed: int = 0) -> el.Trial:
    """Return the trial that all contenders train."""
    task, regime = el.ModularAddition(p=P), el.Split(FRACTION)
    training = el.AdamW(
        steps=2**20,
        batch_size=regime.sample_size(task),
        learning_rate=0.001,
        weight_decay=1.0,
        beta2=0.98,
        batches="epochs",
        loss="cross-entropy",
    )
    return el.Trial(task=task, regime=regime, model=el.PairTransformer(), training=training, seed=seed)


CONTEST = Contest("pairs", PlainLoop, trial_of, CASES, "network", seeds=4, budget=1.0)


def run(*, quick: bool) -> Result:
    """Measure every contender."""
    return CONTEST.run(quick=quick, row=_row, targets=_targets, others=_others)


def _others(case: str) -> dict[str, Work]:
    """Return PyTorch's compiled loop and the products of a step, each with one thread and with all."""
    compiled = CompiledLoop(trial_of())
    random = np.random.default_rng(0)
    model, pairs = el.PairTransformer(), el.Split(FRACTION).sample_size(el.ModularAddition(p=P))
    sizes = ((model.width, model.mlp_width), (model.mlp_width, model.width), (model.width, P))
    layers = [
        tuple(random.normal(size=shape).astype(np.float32) for shape in ((pairs, n), (n, m), (pairs, m)))
        for n, m in sizes
    ]

    def products(threads: int, steps: int) -> None:
        with threadpool_limits(threads):
            for _ in range(steps):
                for values, weight, grad in layers:
                    values @ weight
                    grad @ weight.T
                    values.T @ grad

    threads = (1, cores())
    return {
        **{f"{COMPILED} {count}": partial(in_torch, compiled, count) for count in threads},
        **{f"{PRODUCTS}, threads {count}": partial(products, count) for count in threads},
    }


def _row(case: str, figures: Figures, found: Any) -> dict[str, str]:
    one = figures[CONTEST.names[0]]
    return {
        "NumPy's products, one core": spread(figures[f"{PRODUCTS}, threads 1"]),
        **CONTEST.columns(figures),
        "PyTorch compiled, one core": spread(figures[f"{COMPILED} 1"]),
        "… all cores": spread(figures[f"{COMPILED} {cores()}"]),
        "compiled / pairs, one core": spread(ratios(figures[f"{COMPILED} 1"], one)),
        "pairs / products, one core": spread(ratios(one, figures[f"{PRODUCTS}, threads 1"])),
    }


def _targets(case: str, figures: Figures, found: Any) -> list[Target]:
    step = figures[CONTEST.names[0]]
    return [
        at_most(f"a step, one core, {case}", median(step), 36.0, " ms"),
        at_most(
            f"a step / NumPy's products, one core, {case}",
            median(ratios(step, figures[f"{PRODUCTS}, threads 1"])),
            1.5,
            "x",
        ),
        CONTEST.faster(case, figures, 1.5),
    ]
