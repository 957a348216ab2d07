"""One step of a transformer that is read at a class token: the bits engine, the jax engine and PyTorch.

The published sizes (width 64, 16 heads, dropout 0.1), full-batch Adam on small samples and minibatches of fresh
examples. All contenders draw their dropout; PyTorch's loop has its examples in memory. For the method, see ``beside``.
"""

from functools import partial
from typing import Any

import numpy as np
import torch
from torch.nn import functional

import elegans as el
from benchmarks.beside import AdamLoop, Contest, Figures, normed
from benchmarks.measure import spread
from benchmarks.record import Result, Target

SIZES = {
    "n=100, a sample of 100": (100, 100, "sample:100"),
    "n=20, a sample of 20": (20, 20, "sample:20"),
    "n=15, fresh 2048": (15, 2048, "online"),
}
BATCHES = 4
"""Number of minibatches of fresh examples prepared for PyTorch."""


class PlainLoop(AdamLoop):
    """Keys and values of all tokens, and one query."""

    def __init__(self, trial: el.Trial) -> None:
        """Prepare the network and its examples."""
        super().__init__(trial)
        training, task, model = trial.training, trial.task, trial.model
        assert isinstance(training, el.Adam) and isinstance(model, el.BooleanTransformer)
        self.dropout = partial(functional.dropout, p=model.dropout or 0.0)
        count = BATCHES if isinstance(trial.regime, el.Online) else 1
        index = np.arange(count * training.batch_size, dtype=np.uint32)
        x, y = task.examples(task.draw(trial.key("task")), trial.key("sample"), index)
        self.bits = torch.tensor(np.asarray(x) > 0).long().reshape(count, training.batch_size, -1)
        self.labels = torch.tensor(np.asarray(y)).reshape(count, -1)

    def loss(self, step: int) -> torch.Tensor:
        """Return the logistic loss."""
        place = step % len(self.bits)
        return functional.softplus(-self.labels[place] * self.outputs(self.bits[place])).mean()

    def outputs(self, bits: torch.Tensor) -> torch.Tensor:
        """Return the outputs used in a step of training."""
        layers, count = self.parameters, len(bits)
        embedding, attention = layers["embedding"], layers["attention"]
        own = embedding["class"].expand(count, 1, -1)
        tokens = self.dropout(torch.cat([embedding["token"][bits], own], 1) + embedding["position"])
        inner = normed(layers["norm1"], tokens)
        query = torch.einsum("bd,hda->bha", inner[:, -1], attention["query"]) + attention["query_bias"]
        key, value = (
            torch.einsum("bnd,hda->bhna", inner, attention[name]) + attention[f"{name}_bias"][:, None]
            for name in ("key", "value")
        )
        scores = (key @ query[..., None])[..., 0] / query.shape[-1] ** 0.5
        found = (self.dropout(scores.softmax(-1))[:, :, None] @ value)[:, :, 0]
        merged = torch.einsum("bha,had->bd", found, attention["output"]) + attention["output_bias"]
        z = tokens[:, -1] + self.dropout(merged)
        hidden = functional.gelu(_affine(layers["hidden1"], normed(layers["norm2"], z)))
        z = z + self.dropout(_affine(layers["residual"], hidden))
        logits = normed(layers["norm3"], z) @ layers["output"]["weight"].T
        return logits[:, 1] - logits[:, 0]


def _affine(arrays: dict[str, torch.nn.Parameter], z: torch.Tensor) -> torch.Tensor:
    return functional.linear(z, arrays["weight"], arrays["bias"])


def trial_of(n: int, count: int, regime: str, seed: int = 0) -> el.Trial:
    """Return the trial that all contenders train."""
    training = {"kind": "adam", "steps": 2**20, "batch_size": count, "loss": "logistic", "batches": "epochs"}
    model = el.BooleanTransformer(dropout=0.1)
    return el.Trial(task=el.SparseParity(n=n, k=2), regime=regime, model=model, training=training, seed=seed)


CONTEST = Contest("bits", PlainLoop, trial_of, SIZES, "size", seeds=4)


def run(*, quick: bool) -> Result:
    """Measure every contender at every size."""
    return CONTEST.run(quick=quick, row=_row, targets=_targets)


def _row(size: str, figures: Figures, found: Any) -> dict[str, str]:
    n, count, _ = SIZES[size]
    per_token = [1000 * figure / (count * (n + 1)) for figure in figures[CONTEST.names[0]]]
    return {**CONTEST.columns(figures), "microseconds per token": spread(per_token)}


def _targets(size: str, figures: Figures, found: Any) -> list[Target]:
    return [CONTEST.faster(size, figures, 2.0)]
