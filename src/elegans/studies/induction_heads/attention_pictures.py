"""What the two layers of a transformer attend to while it learns pairs, and which of them is there first.

One sequence is looked at all along. What layers are worth is told by grafts, the thesis' own suggestion being only
that the second layer is learned first: the network of the end with a layer of some step in it, and the network of some
step with the other layer of the end in it. A layer is there once such a network's loss is below the middle of unigram's
and bigram's. Grafts and the steps at which masses have risen by half are derived here.

Source: thesis, chapter 8 (figures 8.2 and E.5).
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.special import softmax
from scipy.stats import binomtest

from elegans.experiments.base import Experiment, Scale
from elegans.models import Model
from elegans.plots import figure_of
from elegans.probes import ParameterTrajectory, Probe
from elegans.studies.induction_heads.animations import attention_film, attention_page, course_of
from elegans.studies.induction_heads.induction_phases import LOOKS, MIRRORED, cell_of, sweep_of, typical
from elegans.studies.induction_heads.plot_pictures import attention_pictures
from elegans.studies.induction_heads.probes import AttentionMaps, AttentionScores, ChainLosses
from elegans.studies.induction_heads.settings import transformer
from elegans.studies.induction_heads.tables import course, lines_of, outcomes_of, significant, spread, transition
from elegans.studies.induction_heads.theory.metrics import chain_loss
from elegans.sweeps import Sweep
from elegans.tasks import MarkovChains
from elegans.training import Outcome, Trial

TOKENS = {2: (1, 1, 0, 1, 1, 1, 0, 0, 1, 1, 0, 1, 1, 1, 1, 0), 3: (2, 0, 1, 2, 1, 1, 0, 2, 0, 1, 1, 2, 1, 0, 2, 0)}
"""The sequence that is looked at, by the number of symbols: the last one is rare and has been there before."""
EXAMPLES, BLOCK = 128, 64
"""How many held-out sequences grafted networks are tried on, and how many of them at a time."""
EVERY_OTHER = 2
"""Every second look has grafts."""
GRAFTS: dict[str, Callable[[str], bool]] = {
    "layer1_alone": lambda name: name.startswith("layer1."),
    "layer2_alone": lambda name: name.startswith("layer2."),
    "layer1_with_ends": lambda name: not name.startswith("layer2."),
    "layer2_with_ends": lambda name: not name.startswith("layer1."),
    "ungrafted": lambda name: True,
}
"""Which parameters are of a step, the others being of the end; *ends* are embedding and output."""
EARLY = 0.5
"""The share of the time to the transition at which masses are called early."""
MASSES = {"previous": "layer1.previous", "induction": "layer2.induction"}
DIGITS = 3
"""Of logits in the table."""


def smoke(trials: int) -> Sweep:
    """Return two symbols and 16 tokens: too short for anything to be learned."""
    return sweep_of(trials, transformer(length=16, batch_size=16, steps=40))


def laptop(trials: int) -> Sweep:
    """Return two and three symbols at the thesis' sizes and thirty times its rate."""
    return sweep_of(trials, transformer(2, steps=2000), transformer(3, steps=1000))


def paper(trials: int) -> Sweep:
    """Return two and three symbols at the thesis' rate."""
    return sweep_of(trials, *(transformer(k, steps=20_000, learning_rate=3e-5) for k in (2, 3)))


def probes(one: Trial) -> tuple[Probe, ...]:
    """Return the losses, the attention's masses, the attention to one sequence, and all parameters."""
    assert isinstance(one.task, MarkovChains)
    every = max(10, one.steps // LOOKS)
    maps = AttentionMaps(every=every, tokens=TOKENS[one.task.k])
    return ChainLosses(every=every), AttentionScores(every=every), maps, ParameterTrajectory(every=every)


def analysis(trials: pd.DataFrame) -> pd.DataFrame:
    """Return a row a trial and measured step: losses, masses, grafts, and of typical trials the maps.

    Columns: those of ``tables.course``; ``cell`` ("k = 2"), ``series`` ("k = 2" or "k = 2, mirrored": first layers that
    end up looking at all tokens but the one before) and ``transition``; ``previous`` and ``induction``, the masses of
    the first layer on the token before and of the second on what followed the current token, and ``uniform_previous``
    and ``uniform_induction``, those of uniform attention; the losses of ``GRAFTS``, at every second step measured; and
    ``typical``, whether the trial is its series' one with the median transition. Those alone have ``tokens``,
    ``layer1`` and ``layer2``: lists of the first head's logits on and below the diagonal, row by row.
    """
    runs = [(one, _run(one)) for one in outcomes_of(trials)]
    table = pd.concat([run for _, run in runs], ignore_index=True)
    chosen = {str(series): typical(rows) for series, rows in table.groupby("series", sort=False)}
    shown = []
    for one, run in runs:
        own = chosen[run["series"].iloc[0]] == one.trial.seed
        shown.append(run.assign(typical=own, **(_maps(one) if own else {})))
    return pd.concat(shown, ignore_index=True).sort_values("series", kind="stable", ignore_index=True)


def _run(outcome: Outcome) -> pd.DataFrame:
    scores, run = outcome.measures["attention-scores"], course(outcome)
    found: dict[str, Any] = {name: np.asarray(scores[mass], float).mean(axis=1) for name, mass in MASSES.items()}
    found |= {f"uniform_{name}": np.asarray(scores[f"uniform.{name}"], float) for name in MASSES}
    cell = cell_of(outcome.trial)
    mirrored = bool(found["previous"][-1] < MIRRORED * found["uniform_previous"][-1])
    named: dict[str, Any] = {"cell": cell, "series": cell + ", mirrored" * mirrored, "transition": transition(run)}
    return run.assign(**named, **found).merge(_grafts(outcome), on="step", how="left")


def _maps(outcome: Outcome) -> dict[str, Any]:
    """Return the tokens, and a list of logits a layer and look."""
    maps = outcome.measures["attention-maps"]
    tokens = np.asarray(maps["tokens"])
    seen = np.tril_indices(tokens.shape[1])
    found = {"tokens": tokens.tolist()}
    for layer in ("layer1", "layer2"):
        logits = np.asarray(maps[f"{layer}.logits"], float)[:, 0]
        found[layer] = np.round(logits[:, *seen], DIGITS).tolist()
    return found


def _grafts(outcome: Outcome) -> pd.DataFrame:
    """Return a row every second look: ``step``, and the loss of the last position of each of ``GRAFTS``."""
    one, taken = outcome.trial, outcome.measures["parameter-trajectory"]
    assert isinstance(one.task, MarkovChains)
    arrays = {name: np.asarray(values) for name, values in taken.items() if name != "step"}
    key, index = one.key("test"), np.arange(EXAMPLES, dtype=np.uint32)
    tokens = one.task.examples(None, key, index)[0]
    true = np.asarray(one.task.conditionals(None, key, index))[:, -1:]
    rows = []
    for look in range(0, len(taken["step"]), EVERY_OTHER):
        losses = {}
        for graft, of_then in GRAFTS.items():
            mixed = {name: values[look if of_then(name) else -1] for name, values in arrays.items()}
            law = softmax(np.asarray(_program(one.model)(_nested(mixed), tokens), float), axis=-1)
            losses[graft] = float(chain_loss(true, law[:, None]).divergence[-1])
        rows.append({"step": int(taken["step"][look]), **losses})
    return pd.DataFrame(rows)


def _nested(arrays: Mapping[str, np.ndarray]) -> dict[str, dict[str, np.ndarray]]:
    """Return a transformer's parameters from those by dotted name."""
    nested: dict[str, dict[str, np.ndarray]] = {}
    for name, array in arrays.items():
        layer, _, own = name.partition(".")
        nested.setdefault(layer, {})[own] = array
    return nested


@lru_cache(maxsize=8)
def _program(model: Model) -> Any:
    """Return the compiled outputs of a model at the last position, of so many sequences at a time as caches hold."""
    import jax

    def whole(parameters: Any, tokens: Any) -> Any:
        blocks = tokens.reshape(-1, BLOCK, tokens.shape[1])
        return jax.lax.map(lambda block: model.last(parameters, block), blocks).reshape(len(tokens), -1)

    return jax.jit(whole)


def plot(table: pd.DataFrame) -> Figure:
    """Draw one network's attention at five times, and the masses and grafts of all with as many symbols."""
    return figure_of(attention_pictures(table))


def film(table: pd.DataFrame, path: Path) -> None:
    """Write the typical network of the first series as a film."""
    series = table["series"] == table["series"].iloc[0]
    attention_film(course_of(table[series & table["typical"]]), path)


def page(table: pd.DataFrame, path: Path) -> None:
    """Write the typical networks of all series as a page."""
    shown = table[table["typical"]].groupby("series", sort=False)
    attention_page({str(series): course_of(run) for series, run in shown}, path)


def findings(table: pd.DataFrame) -> dict[str, Any]:
    """Return, for each series, the masses early and late, and which layer is there first, by masses and by grafts.

    Early is at half of the transition's step, late the end. Where masses are early or late, uniform attention's are
    beside them. ``risen`` are the steps at which a mass has risen by half of what it rises in all. Of grafts, ``at`` is
    the first looked-at step with a loss below the middle of unigram's and bigram's, and ``better`` the share of looks
    before the ungrafted network is there at which the graft's loss is lower than that network's.
    """
    return {str(series): _found(rows) for series, rows in table.groupby("series", sort=False)}


def _found(rows: pd.DataFrame) -> dict[str, Any]:
    runs = [run.sort_values("step") for _, run in rows.groupby("seed")]
    found: dict[str, Any] = {"trials": len(runs), "transition": spread([transition(run) for run in runs])}
    for name in MASSES:
        found[name] = {
            "uniform": significant(float(rows[f"uniform_{name}"].mean())),
            "early": spread([run.loc[run["step"] <= EARLY * _until(run), name].iloc[-1] for run in runs]),
            "late": spread([run[name].iloc[-1] for run in runs]),
            "risen": spread([_risen(run, name) for run in runs]),
        }
    risen = {name: [_risen(run, name) for run in runs] for name in MASSES}
    found["order_of_masses"] = order(risen["previous"], risen["induction"])
    grafted = [run.dropna(subset="ungrafted") for run in runs]
    at = {graft: [_there(run, graft) for run in grafted] for graft in GRAFTS}
    found["grafts"] = {
        graft: {"at": spread(steps), "better": spread([_better(run, graft) for run in grafted])}
        for graft, steps in at.items()
    }
    for kind in ("alone", "with_ends"):
        found[f"order_of_grafts_{kind}"] = order(at[f"layer1_{kind}"], at[f"layer2_{kind}"])
    return found


def order(first: Any, second: Any) -> dict[str, Any]:
    """Return in how many trials the first layer was there first, in how many the second, and the sign test.

    Args:
        first: the steps at which the first layer was there, NaN where it never was.
        second: those of the second layer.

    Returns:
        Counts ``first_layer``, ``second_layer`` and ``ties``; ``p``, two-sided, of "either is as likely to lead", ties
        left out; and ``lead``, by how many steps the first layer led, where both were there.
    """
    one, two = (np.nan_to_num(np.asarray(steps, float), nan=np.inf) for steps in (first, second))
    wins, losses = int((one < two).sum()), int((two < one).sum())
    test = binomtest(wins, wins + losses).pvalue if wins + losses else 1.0
    there = np.isfinite(one) & np.isfinite(two)
    counts = {"first_layer": wins, "second_layer": losses, "ties": len(one) - wins - losses}
    return {**counts, "p": significant(float(test)), "lead": spread(two[there] - one[there]) if there.any() else None}


def _until(run: pd.DataFrame) -> float:
    """Return a run's transition, its end where there is none."""
    return float(np.nan_to_num(transition(run), nan=run["step"].max()))


def _risen(run: pd.DataFrame, name: str) -> float:
    """Return the first step at which a mass has risen by half of what it rises from start to end, NaN if it falls."""
    start, end = run[name].iloc[0], run[name].iloc[-1]
    return _first(run["step"], run[name] >= (start + end) / 2) if end > start else np.nan


def _there(run: pd.DataFrame, graft: str) -> float:
    """Return the first step at which a graft's loss is below the middle of unigram's and bigram's."""
    lines = lines_of(run)
    return _first(run["step"], run[graft] < (lines["unigram"] + lines["bigram"]) / 2)


def _better(run: pd.DataFrame, graft: str) -> float:
    """Return at what share of looks before the ungrafted network is there a graft's loss is lower."""
    there = _there(run, "ungrafted")
    before = run[run["step"] < (there if np.isfinite(there) else np.inf)]
    return float((before[graft] < before["ungrafted"]).mean()) if len(before) else np.nan


def _first(steps: pd.Series, holds: pd.Series) -> float:
    return float(steps[holds].iloc[0]) if holds.any() else np.nan


EXPERIMENT = Experiment(
    name="attention-pictures",
    shows="What transformers on Markov chains attend to as they learn pairs: the token before, then what followed",
    source="figures 8.2 and E.5",
    scales={
        "smoke": Scale(smoke, trials=1, time="about 5 seconds"),
        "laptop": Scale(laptop, trials=10, time="about 6 minutes on 2 cores"),
        "paper": Scale(paper, trials=10, time="about 3 hours on 2 cores"),
    },
    analysis=analysis,
    plot=plot,
    findings=findings,
    probes=probes,
    outcomes=True,
    extras={"attention.gif": film, "attention.html": page},
)
"""Figures 8.2 and E.5."""
