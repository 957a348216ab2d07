"""One step of an attention-only transformer on Markov chains: the attention engine, the jax engine and PyTorch.

Two layers of one head, width 16, on 64 sequences of 100 tokens of two symbols: the published setting. The engines draw
their examples; PyTorch has them in memory. Whole runs of one seed and of ten are timed in fresh processes, from start
to end. For the method, see ``beside``.
"""

import subprocess
import sys
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import torch
from torch.nn import functional

import elegans as el
from benchmarks.beside import AdamLoop, Contest, Figures, normed
from benchmarks.measure import in_turns, ratios, seconds, spread
from benchmarks.record import Result, Target, at_most

STEPS, SEEDS = 2000, 10
BATCHES = 20
"""Number of minibatches prepared for PyTorch."""
WHOLE = """
import sys
import elegans as el
el.run(el.grid(el.Trial.model_validate_json(sys.argv[1]), {}, seeds=int(sys.argv[2])))
"""


class PlainLoop(AdamLoop):
    """Batched products of matrices and a softmax."""

    def __init__(self, trial: el.Trial) -> None:
        """Prepare the network and some minibatches."""
        super().__init__(trial)
        training, task, model = trial.training, trial.task, trial.model
        assert isinstance(training, el.Adam) and isinstance(model, el.AttentionOnly)
        index = np.arange(BATCHES * training.batch_size, dtype=np.uint32)
        examples = task.examples(None, trial.key("sample"), index)
        self.batches = [
            torch.tensor(np.asarray(array)).long().reshape(BATCHES, training.batch_size, -1) for array in examples
        ]
        self.heads = model.layer_heads
        self.future = torch.ones(task.input_size, task.input_size, dtype=torch.bool).triu(1)

    def loss(self, step: int) -> torch.Tensor:
        """Return the cross-entropy."""
        tokens, labels = (array[step % BATCHES] for array in self.batches)
        return functional.cross_entropy(self.logits(tokens).flatten(0, 1), labels.flatten())

    def logits(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the logits of the next tokens."""
        z = self.parameters["embedding"]["token"][tokens]
        for layer, heads in enumerate(self.heads, 1):
            arrays = self.parameters[f"layer{layer}"]
            inner = normed(arrays, z)
            query, key, value = (_by_head(inner @ arrays[name], heads) for name in ("query", "key", "value"))
            relative = _by_head(arrays["relative"].flip(0)[None], heads)
            scores = query @ key.transpose(2, 3) + _shifted(query @ relative.transpose(2, 3))
            scores = (scores / query.shape[-1] ** 0.5).masked_fill(self.future, -torch.inf)
            mixed = (scores.softmax(-1) @ value).transpose(1, 2).reshape(z.shape)
            z = z + (mixed @ arrays["merge"] if "merge" in arrays else mixed)
        return normed(self.parameters["output"], z) @ self.parameters["output"]["weight"]


def _by_head(rows: torch.Tensor, heads: int) -> torch.Tensor:
    return rows.reshape(*rows.shape[:2], heads, -1).transpose(1, 2)


def _shifted(by_distance: torch.Tensor) -> torch.Tensor:
    """Convert values by query and distance, from the largest to 0, to values by query and key."""
    *batch, length, _ = by_distance.shape
    return functional.pad(by_distance, (1, 0)).reshape(*batch, length + 1, length)[..., 1:, :]


def trial_of(form: str, seed: int = 0) -> el.Trial:
    """Return the trial that all contenders train."""
    training = {"kind": "adam", "steps": STEPS, "batch_size": 64, "loss": "cross-entropy", "learning_rate": 0.001}
    model = {"kind": "attention-only", "form": form}
    return el.Trial(task="markov-chains", regime="online", model=model, training=training, seed=seed)


FORMS = {form: (form,) for form in ("prenorm", "plain")}
CONTEST = Contest("attention", PlainLoop, trial_of, FORMS, "form", SEEDS)


def run(*, quick: bool) -> Result:
    """Measure every contender in both forms of the network."""

    def whole_runs(form: str) -> dict[str, Any]:
        runs = {str(seeds): partial(whole_run, form, seeds) for seeds in (1, SEEDS)}
        return {"seconds_of_whole_runs": in_turns(runs, 1 if quick else 3)}

    return CONTEST.run(quick=quick, row=_row, targets=_targets, more=whole_runs)


def whole_run(form: str, seeds: int) -> float:
    """Return the seconds that a fresh process takes to train a number of seeds with all cores."""
    command = [sys.executable, "-c", WHOLE, trial_of(form).model_dump_json(), str(seeds)]
    return seconds(lambda: subprocess.run(command, check=True))


def _row(form: str, figures: Figures, found: Any) -> dict[str, str]:
    runs = found["seconds_of_whole_runs"]
    return {
        **CONTEST.columns(figures),
        f"a run of {STEPS} steps, s": spread(runs["1"]),
        f"{SEEDS} seeds, s": spread(runs[str(SEEDS)]),
    }


def _targets(form: str, figures: Figures, found: Any) -> list[Target]:
    runs, step_seconds = found["seconds_of_whole_runs"], median(figures[CONTEST.names[0]]) / 1000
    seeds = median(ratios(runs[str(SEEDS)], runs["1"]))
    return [
        at_most(f"{STEPS} steps, one core, {form}", STEPS * step_seconds, 50.0, " s"),
        CONTEST.faster(form, figures, 3.0),
        at_most(f"a whole run of {SEEDS} seeds / of one, {form}", seeds, 5.0, "x"),
    ]
