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
from elegans.plots import figure_of
from elegans.probes import Probe
from elegans.studies.variable_creation.models import ConstructedTransformer
from elegans.studies.variable_creation.plot_pattern import attention_pattern
from elegans.studies.variable_creation.probes import ClassWeights, SelectionHeads
from elegans.studies.variable_creation.settings import conjunction
from elegans.studies.variable_creation.theory.measures import attention_share
from elegans.sweeps import Sweep, grid
from elegans.training import Outcome, Trial

TRAINED, PLAIN, BEGUN = "trained network", "theory's form, trained", "begun at the construction"
ARMS = (TRAINED, PLAIN, BEGUN)
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
BY_LABEL = ("support_negative", "support_positive", "mean_other_negative", "mean_other_positive")


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
    plain = conjunction(n, size, heads=1, form="plain", encoding="fixed", dropout=None, **own)
    begun = plain.replace("model", ConstructedTransformer(width=width, encoding="fixed"))
    return grid(trained, {}, seeds=trials) + grid(plain, {}, seeds=trials) + grid(begun, {}, seeds=trials)


def smoke(trials: int) -> Sweep:
    """Return 12 bits and 60 examples, and the trained network alone."""
    return Sweep(arms(12, 60, (1, 5, 8), trials, steps=100, width=16).parts[:1])


def laptop(trials: int) -> Sweep:
    """Return the published size: 50 bits, 300 examples, 500 steps."""
    return arms(50, 300, (5, 20, 30), trials, steps=500)


def probes(one: Trial) -> tuple[Probe, ...]:
    """Return the measures of heads along the way, and whole weights on 100 examples at the beginning and the end."""
    return SelectionHeads(every=EVERY), ClassWeights(every=one.steps)


def analysis(trials: pd.DataFrame) -> pd.DataFrame:
    """Return two kinds of rows: what was measured at each step of a trial, and single weights of the first of each arm.

    The former have the ``part`` course: ``arm``, ``seed``, ``step``, the measures of ``SelectionHeads`` of the one head
    and, with the beginning ``construction_``, the construction's; ``uniform``; and the same in all rows of a trial
    ``solved_at``, ``test_error`` and, by label at the end, ``mean_other_negative``, ``mean_other_positive``,
    ``support_negative`` and ``support_positive``. The latter have the ``part`` weight: ``example``, ``place`` (the
    class token's is n), ``relevant``, ``bit`` and ``weight``, at the end of training; those of the arm ``construction``
    are where the one begins that is trained from there.
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
    ends = {"solved_at": outcome.solved_at, "test_error": outcome.test_error, **_by_label(outcome)}
    return pd.DataFrame({"part": "course", "arm": _arm(outcome.trial), "seed": outcome.trial.seed, **found, **ends})


def _by_label(outcome: Outcome) -> dict[str, float]:
    """Return what the support and a position outside of it get at the end, on examples of either label."""
    _, y, support = _examples(outcome)
    share = attention_share(_single_weights(outcome, -1), support.tolist())
    found = {}
    for name, members in (("negative", y < 0), ("positive", y > 0)):
        for measure in ("support", "mean_other"):
            values = getattr(share, measure)[members]
            found[f"{measure}_{name}"] = float(values.mean()) if len(values) else np.nan
    return found


def _examples(outcome: Outcome) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the inputs and labels on which single weights were taken, and the support."""
    trial, count = outcome.trial, _single_weights(outcome, -1).shape[0]
    support = trial.task.draw(trial.key("task"))
    x, y = trial.task.examples(support, trial.key("test"), np.arange(count, dtype=np.uint32))
    return x, y, support


def _single_weights(outcome: Outcome, which: int) -> np.ndarray:
    """Return the only head's weights at one of the measurements, shape (examples, places)."""
    return np.asarray(outcome.measures["class-weights"]["weights"][which])[:, 0]


def _weights(arm: str, outcome: Outcome, which: int) -> pd.DataFrame:
    """Return single weights of a trial's only head, a row an example and place."""
    weights, (x, _, support) = _single_weights(outcome, which), _examples(outcome)
    count, places = weights.shape
    bits = np.concatenate([x > 0, np.zeros((count, 1), bool)], axis=1)
    example, place = np.divmod(np.arange(count * places), places)
    columns = {"example": example, "place": place, "bit": bits.ravel().astype(int), "weight": weights.ravel()}
    own = {"part": "weight", "arm": arm, "seed": outcome.trial.seed}
    return pd.DataFrame({**own, **columns, "relevant": np.isin(place, support).astype(int)})


def plot(table: pd.DataFrame) -> Figure:
    """Draw single weights by position, and how masses, distance and weights by bit come about."""
    return figure_of(attention_pattern(table))


def findings(table: pd.DataFrame) -> dict[str, Any]:
    """Return each arm's measures at the end, medians and ranges over trials, and what the construction has.

    ``uniform_over_mean_other`` is how many times the average weight of an irrelevant position is below uniform at the
    end, ``…_most`` at the step where that is largest, and ``…_on_negatives`` on examples with a violated condition;
    ``at_least_5_below`` in how many trials each is 5 or more.
    """
    course = table[table["part"] == "course"]
    found: dict[str, Any] = {}
    for arm, rows in course.groupby("arm", sort=False):
        last = rows.sort_values("step").groupby("seed").last()
        ratio = (rows["uniform"] / rows["mean_other"]).groupby(rows["seed"])
        below = {
            "uniform_over_mean_other": last["uniform"] / last["mean_other"],
            "uniform_over_mean_other_most": ratio.max(),
            "uniform_over_mean_other_on_negatives": last["uniform"] / last["mean_other_negative"],
        }
        found[str(arm)] = {
            "trials": len(last),
            "solved": int(last["solved_at"].notna().sum()),
            "solved_at": _spread(last["solved_at"]),
            "test_error": _spread(last["test_error"]),
            **{name: _spread(values) for name, values in below.items()},
            "at_least_5_below": {name: int((values >= BELOW).sum()) for name, values in below.items()},
            **{name: _spread(last[name]) for name in (*MEASURED, *BY_LABEL)},
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


EXPERIMENT = Experiment(
    name="attention-pattern",
    shows="A trained head looks at the relevant positions, at those whose bit settles the label above all",
    source="figure 4.3 (right), and the constructions of appendix A.2",
    scales={
        "smoke": Scale(smoke, trials=1, time="about 3 seconds"),
        "laptop": Scale(laptop, trials=10, time="about 5 minutes on 2 cores"),
        "paper": Scale(laptop, trials=40, time="about 20 minutes on 2 cores"),
    },
    analysis=analysis,
    plot=plot,
    findings=findings,
    probes=probes,
    outcomes=True,
)
