"""One step of an attention-only transformer on Markov chains: the attention engine beside the jax engine and PyTorch.

Two layers of one head, width 16, on 64 sequences of 100 tokens of two symbols: the published setting. The engines draw
their examples; PyTorch's loop finds them in memory. The attention engine is measured on one core, the jax engine on
all, PyTorch with one thread and with all. Ten networks that differ in their seed are trained in turn on one core and
side by side on all of them. Figures are milliseconds a step and network. Whole runs of one seed and of ten are timed in
fresh processes, from their start to their end.
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
from benchmarks.measure import best, in_turns, ratios, seconds, spread
from benchmarks.pairs import Work, in_torch, in_turn, milliseconds, side_by_side, steps_in
from benchmarks.record import Result, Target, cores
from elegans.training.engines import ENGINES

FORMS = ("prenorm", "plain")
STEPS, SEEDS = 2000, 10
BATCHES = 20
"""How many minibatches lie ready for PyTorch."""
WHOLE = """
import sys
import elegans as el
el.run(el.grid(el.Trial.model_validate_json(sys.argv[1]), {}, seeds=int(sys.argv[2])))
"""
TORCH = "PyTorch plain"
ONE, JAX, IN_TURN, SIDE_BY_SIDE = "elegans attention", "elegans jax", "10 seeds in turn", "10 seeds side by side"


class PlainLoop:
    """What a PyTorch user would write: batched products of matrices, a softmax, autograd and AdamW."""

    def __init__(self, trial: el.Trial) -> None:
        """Put the network and some minibatches on hand."""
        training, task, model = trial.training, trial.task, trial.model
        assert isinstance(training, el.Adam) and isinstance(model, el.AttentionOnly)
        initial = model.initialise(trial.key("init"), task)
        self.parameters = {
            layer: {name: torch.nn.Parameter(torch.tensor(array)) for name, array in arrays.items()}
            for layer, arrays in initial.items()
        }
        index = np.arange(BATCHES * training.batch_size, dtype=np.uint32)
        examples = task.examples(None, trial.key("sample"), index)
        self.batches = [
            torch.tensor(np.asarray(array)).long().reshape(BATCHES, training.batch_size, -1) for array in examples
        ]
        self.heads = model.layer_heads
        self.future = torch.ones(task.input_size, task.input_size, dtype=torch.bool).triu(1)
        self.optimiser = torch.optim.AdamW(
            [array for arrays in self.parameters.values() for array in arrays.values()],
            lr=training.learning_rate,
            weight_decay=training.weight_decay,
        )

    def logits(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the logits of the next tokens."""
        z = self.parameters["embedding"]["token"][tokens]
        for layer, heads in enumerate(self.heads, 1):
            arrays = self.parameters[f"layer{layer}"]
            inner = _normed(arrays, z)
            query, key, value = (_by_head(inner @ arrays[name], heads) for name in ("query", "key", "value"))
            relative = _by_head(arrays["relative"].flip(0)[None], heads)
            scores = query @ key.transpose(2, 3) + _shifted(query @ relative.transpose(2, 3))
            scores = (scores / query.shape[-1] ** 0.5).masked_fill(self.future, -torch.inf)
            mixed = (scores.softmax(-1) @ value).transpose(1, 2).reshape(z.shape)
            z = z + (mixed @ arrays["merge"] if "merge" in arrays else mixed)
        return _normed(self.parameters["output"], z) @ self.parameters["output"]["weight"]

    def advance(self, steps: int) -> None:
        """Take steps."""
        for step in range(steps):
            tokens, labels = (array[step % BATCHES] for array in self.batches)
            self.optimiser.zero_grad()
            functional.cross_entropy(self.logits(tokens).flatten(0, 1), labels.flatten()).backward()
            self.optimiser.step()


def _normed(arrays: dict[str, torch.nn.Parameter], z: torch.Tensor) -> torch.Tensor:
    return functional.layer_norm(z, z.shape[-1:], arrays["scale"], arrays["shift"]) if "scale" in arrays else z


def _by_head(rows: torch.Tensor, heads: int) -> torch.Tensor:
    return rows.reshape(*rows.shape[:2], heads, -1).transpose(1, 2)


def _shifted(by_distance: torch.Tensor) -> torch.Tensor:
    """Return what is given by query and distance, from the largest to 0, by query and key."""
    *batch, length, _ = by_distance.shape
    return functional.pad(by_distance, (1, 0)).reshape(*batch, length + 1, length)[..., 1:, :]


def trial_of(form: str, seed: int = 0) -> el.Trial:
    """Return the trial that all contenders train."""
    training = {"kind": "adam", "steps": STEPS, "batch_size": 64, "loss": "cross-entropy", "learning_rate": 0.001}
    model = {"kind": "attention-only", "form": form}
    return el.Trial(task="markov-chains", regime="online", model=model, training=training, seed=seed)


def run(*, quick: bool) -> Result:
    """Measure every contender in both forms of the network."""
    repetitions, budget = (3, 0.1) if quick else (9, 0.3)
    found = {}
    for form in FORMS:
        contenders = contenders_of(form)
        steps = {contender: steps_in(work, budget) for contender, work in contenders.items()}
        measures = {contender: partial(milliseconds, work, steps[contender]) for contender, work in contenders.items()}
        runs = {str(seeds): partial(whole_run, form, seeds) for seeds in (1, SEEDS)}
        found[form] = {
            "steps": steps,
            "milliseconds_per_step_and_network": in_turns(measures, repetitions),
            "seconds_of_whole_runs": in_turns(runs, 1 if quick else 3),
        }
    return Result(
        settings={
            **trial_of(FORMS[0]).model_dump(mode="json", exclude={"seed": True}),
            "forms": FORMS,
            "repetitions": repetitions,
            "seconds_per_repetition": budget,
        },
        repetitions=found,
        summary=[_row(form, found[form]) for form in FORMS],
        targets=[target for form in FORMS for target in _targets(form, found[form])],
    )


def contenders_of(form: str) -> dict[str, Work]:
    """Return by name what takes so many steps; those of several networks take them with each."""
    trials = [trial_of(form, seed) for seed in range(SEEDS)]
    engine, general = ENGINES["attention"], ENGINES["jax"]
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


def whole_run(form: str, seeds: int) -> float:
    """Return the seconds that a fresh process takes to train so many seeds with all cores."""
    command = [sys.executable, "-c", WHOLE, trial_of(form).model_dump_json(), str(seeds)]
    return seconds(lambda: subprocess.run(command, check=True))


def _figures(found: dict[str, Any]) -> dict[str, list[float]]:
    figures: dict[str, list[float]] = found["milliseconds_per_step_and_network"]
    together = {IN_TURN, SIDE_BY_SIDE}
    return {
        contender: [figure / SEEDS if contender in together else figure for figure in taken]
        for contender, taken in figures.items()
    }


def _row(form: str, found: dict[str, Any]) -> dict[str, str]:
    figures, runs = _figures(found), found["seconds_of_whole_runs"]
    alone, all_cores = (f"{TORCH}, threads {threads}" for threads in (1, cores()))
    fastest = best(figures, [alone, all_cores])
    return {
        "form": form,
        "PyTorch, one core": spread(figures[alone]),
        "PyTorch, all cores": spread(figures[all_cores]),
        "elegans jax, all cores": spread(figures[JAX]),
        "elegans attention, one core": spread(figures[ONE]),
        IN_TURN: spread(figures[IN_TURN]),
        SIDE_BY_SIDE: spread(figures[SIDE_BY_SIDE]),
        "PyTorch / attention, one core": spread(ratios(figures[alone], figures[ONE])),
        "PyTorch / attention side by side": spread(ratios(figures[fastest], figures[SIDE_BY_SIDE])),
        f"a run of {STEPS} steps, s": spread(runs["1"]),
        f"{SEEDS} seeds, s": spread(runs[str(SEEDS)]),
    }


def _targets(form: str, found: dict[str, Any]) -> list[Target]:
    figures, runs = _figures(found), found["seconds_of_whole_runs"]
    step_seconds = median(figures[ONE]) / 1000
    faster = median(ratios(figures[f"{TORCH}, threads 1"], figures[ONE]))
    seeds = median(ratios(runs[str(SEEDS)], runs["1"]))
    return [
        Target(f"{STEPS} steps, one core, {form}", STEPS * step_seconds, 50.0, " s", at_least=False),
        Target(f"PyTorch's plain loop / a step, one core, {form}", faster, 3.0, "x", at_least=True),
        Target(f"a whole run of {SEEDS} seeds / of one, {form}", seeds, 5.0, "x", at_least=False),
    ]
