"""What a trained head looks at, beside the construction: the published picture, and how far apart the two are.

The trained network is that of the thesis with one head of all 64 dimensions, on 300 examples of a conjunction of three
of 50 bits. The construction is run in the same class of networks, and measured on the same inputs. The theory's form of
the layer, without norms, residual path and dropout, is trained twice: from random weights, and from the construction.

What a relevant position gets depends on its bit, on which the construction's weights do not; so this is measured too.
"""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from elegans.analysis import median
from elegans.experiments.base import Experiment, Scale
from elegans.experiments.variables.settings import SOURCE, conjunction
from elegans.plots import attention_pattern, figure_of
from elegans.probes import ClassWeights, Probe, SelectionHeads
from elegans.sweeps import Sweep, grid
from elegans.training import ConstructedTransformer, Outcome, Trial

TRAINED, PLAIN, BEGUN = "trained network", "theory's form, trained", "theory's form, from the construction"
ARMS = (TRAINED, PLAIN, BEGUN)
DEVIATION = 0.1
"""Of the initial weights of the theory's form: at 0.02 its outputs begin too small to be learned from."""
EVERY = 10
BELOW = 5.0
"""How many times below uniform the average weight of an irrelevant position is said to be."""
MEASURED = (
    "support",
    "class_token",
    "others",
    "mean_other",
    "largest_other",
    "on_zeros",
    "on_ones",
    "distance",
    "gap",
    "implied_gap",
    "query",
    "key",
    "value",
    "output",
    "merged",
    "mapped",
    "token_norm",
    "capacity",
    "sample",
)


def arms(n: int, size: int, support: tuple[int, ...], trials: int, *, steps: int, width: int = 64) -> Sweep:
    """Return the trained network, the theory's form from random weights, and the same from the construction.

    Args:
        n: the number of bits.
        size: the number of examples.
        support: the three bits that matter.
        trials: how many trials an arm.
        steps: how many steps each is trained for; none stops when it is solved.
        width: the size of a token, at least n + 3.
    """
    own: dict[str, Any] = {"support": support, "steps": steps, "every": EVERY, "stop": False, "width": width}
    trained = conjunction(n, size, heads=1, **own)
    plain = conjunction(n, size, heads=1, form="plain", encoding="fixed", dropout=None, deviation=DEVIATION, **own)
    begun = plain.replace("model", ConstructedTransformer(width=width, encoding="fixed"))
    return grid(trained, {}, seeds=trials) + grid(plain, {}, seeds=trials) + grid(begun, {}, seeds=trials)


def smoke(trials: int) -> Sweep:
    """Return 12 bits and 40 examples."""
    return arms(12, 40, (1, 5, 8), trials, steps=40, width=16)


def laptop(trials: int) -> Sweep:
    """Return the published size: 50 bits, 300 examples, 500 steps."""
    return arms(50, 300, (5, 20, 30), trials, steps=500)


def probes(one: Trial) -> tuple[Probe, ...]:
    """Return the measures of heads along the way, and whole weights on 100 examples at the beginning and the end."""
    return SelectionHeads(every=EVERY), ClassWeights(every=one.steps)


def analysis(trials: pd.DataFrame) -> pd.DataFrame:
    """Return two kinds of rows: what was measured at each step of a trial, and single weights of the first of each arm.

    The former have the ``part`` course: ``arm``, ``seed``, ``step``, the measures of ``SelectionHeads`` of the one head
    and, with the beginning ``construction_``, the construction's; ``uniform``; ``solved_at`` and ``test_error``, the
    same in all rows of a trial. The latter have the ``part`` weight: ``example``, ``place`` (the class token's is n),
    ``relevant``, ``bit`` and ``weight``, at the end of training; those of the arm ``construction`` are where the one
    begins that is trained from there.
    """
    outcomes = [outcome for outcome in trials["outcome"] if outcome.measures]
    firsts: dict[str, Outcome] = {}
    for outcome in outcomes:
        firsts.setdefault(_arm(outcome.trial), outcome)
    weights = [_weights(arm, outcome, -1) for arm, outcome in firsts.items()]
    if BEGUN in firsts:
        weights.append(_weights("construction", firsts[BEGUN], 0))
    return pd.concat([*(_course(outcome) for outcome in outcomes), *weights], ignore_index=True)


def _arm(one: Trial) -> str:
    if isinstance(one.model, ConstructedTransformer):
        return BEGUN
    return PLAIN if one.model.columns()["form"] == "plain" else TRAINED


def _course(outcome: Outcome) -> pd.DataFrame:
    taken = outcome.measures["selection-heads"]
    found: dict[str, Any] = {"step": np.array(taken["step"]), "uniform": np.array(taken["uniform"])}
    for name in MEASURED:
        found[name] = np.array(taken[name]).reshape(len(found["step"]))
        found[f"construction_{name}"] = np.array(taken[f"construction.{name}"]).reshape(len(found["step"]))
    ends = {"solved_at": outcome.solved_at, "test_error": outcome.test_error}
    return pd.DataFrame({"part": "course", "arm": _arm(outcome.trial), "seed": outcome.trial.seed, **found, **ends})


def _weights(arm: str, outcome: Outcome, which: int) -> pd.DataFrame:
    """Return single weights of a trial's only head, a row an example and place."""
    trial, weights = outcome.trial, np.array(outcome.measures["class-weights"]["weights"][which])[:, 0]
    count, places = weights.shape
    support = trial.task.draw(trial.key("task"))
    x, _ = trial.task.examples(support, trial.key("test"), np.arange(count, dtype=np.uint32))
    bits = np.concatenate([x > 0, np.zeros((count, 1), bool)], axis=1)
    example, place = np.divmod(np.arange(count * places), places)
    columns = {"example": example, "place": place, "bit": bits.ravel().astype(int), "weight": weights.ravel()}
    own = {"part": "weight", "arm": arm, "seed": trial.seed}
    return pd.DataFrame({**own, **columns, "relevant": np.isin(place, support)})


def plot(table: pd.DataFrame) -> Figure:
    """Draw single weights by position, and how masses, distance and weights by bit come about."""
    return figure_of(attention_pattern(table))


def findings(table: pd.DataFrame) -> dict[str, Any]:
    """Return each arm's measures at the end, medians and ranges over trials, and what the construction has.

    ``uniform_over_mean_other`` is how many times the average weight of an irrelevant position is below uniform;
    ``at_least_5_below`` in how many trials that is 5 or more.
    """
    course = table[table["part"] == "course"]
    found: dict[str, Any] = {}
    for arm, rows in course.groupby("arm", sort=False):
        last = rows.sort_values("step").groupby("seed").last()
        below = last["uniform"] / last["mean_other"]
        found[str(arm)] = {
            "trials": len(last),
            "solved": int(last["solved_at"].notna().sum()),
            "solved_at": _spread(last["solved_at"]),
            "test_error": _spread(last["test_error"]),
            "uniform_over_mean_other": _spread(below),
            "at_least_5_below": int((below >= BELOW).sum()),
            **{name: _spread(last[name]) for name in MEASURED},
        }
        found[str(arm)]["construction"] = {name: _rounded(last[f"construction_{name}"].iloc[0]) for name in MEASURED}
    return found


def _spread(values: pd.Series) -> dict[str, float]:
    known = values.dropna().to_numpy(float)
    if not len(known):
        return {}
    return {"median": _rounded(median(known)), "least": _rounded(known.min()), "most": _rounded(known.max())}


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


ATTENTION_PATTERN = Experiment(
    name="attention-pattern",
    shows="A trained head looks at the relevant positions, at those whose bit settles the label above all",
    source=f"{SOURCE}, figure 4.3 (right), and the constructions of appendix A.2",
    scales={
        "smoke": Scale(smoke, trials=1, time="about 10 seconds"),
        "laptop": Scale(laptop, trials=10, time="about 5 minutes on 2 cores"),
        "paper": Scale(laptop, trials=40, time="about 20 minutes on 2 cores"),
    },
    analysis=analysis,
    plot=plot,
    findings=findings,
    probes=probes,
    outcomes=True,
)
