"""Whether the estimated learning coefficient rises where the loss falls from one polygon to the next."""

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from elegans import random
from elegans.experiments import Experiment, Results, Scale, Tables, Verdict, claim
from elegans.experiments.rules import at_least, attempt, by_share, combine, share_limits, table
from elegans.plots.style import COLOURS, GREY, figure_legend, panels, title_figure, title_panels
from elegans.probes import ParameterTrajectory, Probe
from elegans.stopping import StoppingRule
from elegans.studies.superposition.models import TiedAutoencoder
from elegans.studies.superposition.probes import NearestPolygon
from elegans.studies.superposition.sampling import LEVEL, NBETA, Setting, chains_at
from elegans.studies.superposition.tasks import SparseFeatures
from elegans.studies.superposition.theory.polygons import polygon_arrays, polygon_point
from elegans.sweeps import Sweep
from elegans.tasks import Online
from elegans.training import SGD, ExactDescent, Square, Trial

STARTS = ((2, 0), (2, 2), (3, 0), (3, 1))
"""Corners and dead columns of the saddles at which training starts, up to noise."""
NOISE, RATE, BATCH = 0.01, 0.1, 20
STEPS, EVERY = 6000, 40
NEAR, DWELLS = 0.02, 3
"""A network dwells at a polygon if its loss is within 2% of the level at three measurements in a row."""
LEAST = 30
MOST = 0.95
"""The share of transitions that is claimed to be exceeded: nearly every one."""
CHAINS = 16
WARM = {
    "step size 0.001": Setting(NBETA, 1e-3, 1.0, 500),
    "step size 0.0001": Setting(NBETA, 1e-4, 1.0, 500),
    "localisation 100": Setting(NBETA, 1e-3, 100.0, 500),
}
"""Settings at n = 1000; localisation 1 and step size 0.001 where not named."""
COLD = {"cold": Setting(1e6, 3e-8, 1.0, 15_000, 5000)}
"""The setting at which estimates equal the coefficients of the minima, see ``llc-polygons``."""
MINIMUM = 4
"""Polygons with at least this many corners are minima."""
SHOWN, POINTS_SHOWN = 2, 30


class State(NamedTuple):
    """A polygon as a state of training.

    Args:
        corners: of the polygon.
        dead: other columns with a negative bias.
    """

    corners: int
    dead: int

    @property
    def name(self) -> str:
        """Corners, then a sign for each other column's bias."""
        return f"{self.corners}{'+' * (6 - self.corners - self.dead)}{'-' * self.dead}"


STATES = [State(k, f) for k in range(2, 7) for f in range(7 - k)]
LEVELS = np.array([polygon_point(state.corners, 6, state.dead).loss for state in STATES])


def trained(start: tuple[int, int], exact: bool) -> Trial:
    """Return descent from near a saddle, on the exact loss or by minibatches of fresh examples."""
    corners, dead = start
    common: dict[str, Any] = {
        "steps": STEPS,
        "learning_rate": RATE,
        "loss": Square(scale=2.0),
        "stopping": StoppingRule(error=0, examples=1, every=STEPS),
    }
    return Trial(
        task=SparseFeatures(n=6, one_hot=True),
        regime=Online(),
        model=TiedAutoencoder(hidden=2, scale=NOISE, corners=corners, dead=dead),
        training=ExactDescent(**common) if exact else SGD(batch_size=BATCH, **common),
    )


def sweep(trials: int) -> Sweep:
    """Return descent from each start, exact and by minibatches; a quarter as often from two corners."""
    cells = [(trained(start, exact), start) for exact in (True, False) for start in STARTS]
    return Sweep(tuple((cell, range(trials if corners > 2 else trials // 4)) for cell, (corners, _) in cells))


PROBES: tuple[Probe, ...] = (NearestPolygon(every=EVERY), ParameterTrajectory(every=EVERY))


def dwellings(corners: np.ndarray, loss: np.ndarray) -> list[tuple[State, int]]:
    """Return the polygons at which a network dwells, in order, each with the middle of its measurements there.

    Args:
        corners: represented columns, by measurement.
        loss: exact losses.
    """
    away = np.abs(loss[:, None] / LEVELS - 1) + (corners[:, None] != [state.corners for state in STATES])
    nearest = np.where(away.min(axis=1) <= NEAR, away.argmin(axis=1), -1)
    ends = np.flatnonzero(np.diff(nearest, append=-2)) + 1
    found: list[tuple[State, int]] = []
    for first, end in pairwise([0, *ends.tolist()]):
        number = int(nearest[first])
        if number >= 0 and end - first >= DWELLS and (not found or found[-1][0] != STATES[number]):
            found.append((STATES[number], (first + end) // 2))
    return found


def analyse(results: Results) -> Tables:
    """Return ``transitions`` and ``curves``.

    ``transitions`` has a row for each pair of polygons at which a network dwells one after the other, and for each
    setting of the estimator: estimates and shares of chains that left, before and after. Estimates at n = 1000 are at
    the network's own parameters. Cold ones are at the exact polygons, if both are minima. ``curves`` has loss and
    estimate along the training of two networks of each exact start.
    """
    key = random.stream(results.first_seed, "probe")
    polygons = results.measured("nearest-polygon", "model.corners", "model.dead", "training")
    weights = results.measures["parameter-trajectory"].set_index(["trial", "step"])
    rows: list[dict[str, Any]] = []
    curves: list[dict[str, Any]] = []
    drawn: Counter[str] = Counter()
    for number, (trial, measured) in enumerate(polygons.sort_values("step").groupby("trial")):
        first = measured.iloc[0]
        start = State(int(first["model.corners"]), int(first["model.dead"])).name
        known = {"start": start, "exact": first["training"] == "exact-descent", "seed": int(first["seed"])}
        own = weights.loc[trial]
        steps = measured["step"].to_numpy()
        points = [
            _flat(weight, bias) for weight, bias in zip(own.loc[steps, "weight"], own.loc[steps, "bias"], strict=True)
        ]
        of_trial = key.fold(number)
        loss = measured["loss"].to_numpy(float)
        rows += _transitions(dwellings(measured["corners"].to_numpy(), loss), steps, points, of_trial, known)
        drawn[start] += known["exact"]
        if known["exact"] and drawn[start] <= SHOWN:
            chosen = np.unique(np.geomspace(1, len(steps), POINTS_SHOWN).astype(int)) - 1
            curves += _curve(chosen, steps, loss, points, of_trial.fold(2**20), known)
    columns = [*known, "before", "after", "step", "setting", "estimate_before", "estimate_after", "left_before"]
    return {"transitions": pd.DataFrame(rows, columns=[*columns, "left_after"]), "curves": pd.DataFrame(curves)}


def _flat(weight: Any, bias: Any) -> np.ndarray:
    return np.concatenate([np.asarray(weight, float).ravel(), np.asarray(bias, float)])


def _transitions(
    states: list[tuple[State, int]], steps: np.ndarray, points: list[np.ndarray], key: random.Key, known: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    for number, (before, after) in enumerate(pairwise(states)):
        settings = {**WARM, **COLD} if before[0].corners >= MINIMUM else WARM
        for order, (name, setting) in enumerate(settings.items()):
            row: dict[str, Any] = {**known, "before": before[0].name, "after": after[0].name}
            row |= {"step": int(steps[after[1]]), "setting": name}
            for side, (state, place) in enumerate((before, after)):
                at = _flat(*polygon_arrays(state.corners, 6, state.dead)) if name in COLD else points[place]
                when = ("before", "after")[side]
                row[f"estimate_{when}"], row[f"left_{when}"] = _estimate(
                    at, setting, key.fold(8 * number + 2 * order + side)
                )
            yield row


def _estimate(at: np.ndarray, setting: Setting, key: random.Key) -> tuple[float, float]:
    chains = chains_at(at, setting, CHAINS, key)
    return float(f"{setting.nbeta * (chains.mean.mean() - chains.start):.4g}"), round(chains.left, 4)


def _curve(
    chosen: np.ndarray, steps: np.ndarray, loss: np.ndarray, points: list[np.ndarray], key: random.Key, known: Any
) -> Iterator[dict[str, Any]]:
    setting = next(iter(WARM.values()))
    for place in chosen.tolist():
        estimate, left = _estimate(points[place], setting, key.fold(place))
        state = {"step": int(steps[place]), "loss": round(float(loss[place]), 6)}
        yield {"start": known["start"], "seed": known["seed"], **state, "estimate": estimate, "left": left}


def rises(rows: pd.DataFrame) -> tuple[int, int]:
    """Return at how many transitions the estimate rises, and how many there are."""
    return int((rows["estimate_after"] > rows["estimate_before"]).sum()), len(rows)


def between_minima(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the transitions from squares and pentagons on."""
    return rows[rows["before"].str[0].astype(int) >= MINIMUM]


def _rises(tables: Tables, setting: str, level: float) -> Verdict:
    rows = _transitions_at(tables, setting)
    return by_share("transitions at which the estimate rises", *rises(rows), above=MOST, level=level)


def _falls(tables: Tables, level: float) -> Verdict:
    rows = _transitions_at(tables, next(iter(WARM)))
    losses = dict(zip((state.name for state in STATES), LEVELS, strict=True))
    falls = int((rows["after"].map(losses) < rows["before"].map(losses)).sum())
    return by_share("transitions at which the loss falls", falls, len(rows), above=MOST, level=level)


def _transitions_at(tables: Tables, setting: str) -> pd.DataFrame:
    needs = f"{LEAST} transitions"
    return at_least(LEAST, table(tables, "transitions", needs, setting=setting), needs)


@claim(
    id="superposition/stagewise",
    statement="Training moves from polygon to polygon: at nearly every transition the loss falls and the estimated "
    "local learning coefficient rises. So does the coefficient itself between minima.",
    source="Chen et al. (2023), section 5",
    setting="six one-hot features; starts at the saddles 2++++, 2++--, 3+++ and 3++- with noise of 0.01; exact descent "
    "and batches of 20, rate 0.1, 6000 steps (our choices). Estimates at n = 1000 with localisation 1 and step size "
    "0.001, with step size 0.0001, and with localisation 100. The source, as it is reproduced elsewhere, starts at a "
    "square whose spare biases are 0, with noise of 0.01, on 1000 fixed examples, at rate 0.005 for 225,000 steps with "
    "batches of 20, and estimates with the first of these settings; this start is not run here",
    rule="A network dwells at a polygon if it has as many columns longer than one half and its loss is within 2% of "
    "the level (our choices) at three measurements in a row. Over all pairs of polygons at which a network dwells one "
    "after the other, at least 30, the level is lower after than before at more than 95% (our choice), by exact "
    "limits, and the estimate from 16 chains is larger, in each of three settings at n = 1000. At n beta = 10^6, where "
    "estimates equal the coefficients, it is larger at more than 95% of the pairs of minima, at least 30, from chains "
    "that start at the exact polygons. A part fails if its upper limit is below 95%. Five parts share an error rate of "
    "1%; transitions of one network count as independent.",
    revised="A pilot on other seeds showed that all chains leave saddles at every temperature, so there the control "
    "would hold whatever the coefficients are. It now counts minima only, with its own limit; no evidence had been "
    "made. A first run left the control undecided, at 46 of 63 transitions: its cold chains of 3000 steps estimated "
    "7.3 on average at squares, whose coefficients are 7.5 to 8.5. The chains now have the 20,000 steps of "
    "llc-polygons, and new seeds judge. Then the statement said that the estimate rises at each transition, but the "
    "rule asked for more than half, and for three quarters when cold; that the loss falls was not tested, and the "
    "statement did not name the coefficient itself. Now all must exceed 95%. The verdict was and is holds in part; the "
    "rule was changed after the tables had been seen.",
)
def stagewise(tables: Tables) -> Verdict:
    level = LEVEL / (1 + len(WARM) + len(COLD))
    parts = {"the loss": attempt(_falls, tables, level)}
    parts |= {name: attempt(_rises, tables, name, level) for name in WARM}
    parts["the coefficient between minima"] = attempt(_rises, tables, next(iter(COLD)), level)
    return combine(parts)


def findings(tables: Tables) -> dict[str, Any]:
    """Return by setting at how many transitions the estimate rises, and which transitions there were."""
    rows = tables["transitions"]
    stated: dict[str, Any] = {}
    for setting, group in rows.groupby("setting", sort=False):
        entry = {}
        for name, part in (("all", group), ("between minima", between_minima(group))):
            count, total = rises(part)
            means = part[["estimate_before", "estimate_after", "left_before", "left_after"]].mean().round(3)
            entry[name] = {"rise": count, "transitions": total, **means.where(means.notna(), None).to_dict()}
        stated[str(setting)] = entry
    one = rows[rows["setting"] == next(iter(WARM))]
    stated["pairs"] = (one["before"] + " to " + one["after"]).value_counts().sort_index().to_dict()
    return stated


def plot(tables: Tables) -> Figure:
    """Draw loss and estimate along training, and at how many transitions the estimate rises, by setting."""
    figure, ((left, middle, right),) = panels(1, 3, height=2.8)
    for (start, group), colour in zip(tables["curves"].groupby("start"), COLOURS, strict=False):
        for order, (_, one) in enumerate(group.groupby("seed")):
            label = f"from {start}" if order == 0 else ""
            left.plot(one["step"], one["loss"], color=colour, linewidth=1, label=label)
            middle.plot(one["step"], one["estimate"], color=colour, linewidth=1)
    for corners in range(2, 7):
        level = polygon_point(corners).loss
        left.axhline(level, color=GREY, linewidth=0.5, linestyle=":")
        left.annotate(str(corners), (1, level), xycoords=("axes fraction", "data"), fontsize=6, ha="right", va="bottom")
    middle.axhline(8.5, color=GREY, linewidth=0.5, linestyle=":")
    for ax, label in ((left, "exact loss"), (middle, "estimate at n = 1000")):
        ax.set(xlabel="steps", ylabel=label)
    left.set_ylim(0, None)
    _shares(right, tables["transitions"])
    title_panels((left, middle, right), ("Loss falls", "Estimate rises", "Not when cold"))
    title_figure(
        figure,
        "The estimate rises as the loss falls, but often not between minima at low temperature",
        "Six one-hot features in two dimensions; left: exact descent, dotted: levels of polygons by corners; middle: "
        "dotted: the hexagon's coefficient; right: exact 95% limits",
    )
    figure_legend(figure, left, right, columns=6)
    return figure


def _shares(ax: Axes, rows: pd.DataFrame) -> None:
    settings = rows["setting"].unique()
    for shift, name, colour in ((-0.1, "all transitions", COLOURS[4]), (0.1, "between minima", COLOURS[5])):
        for place, setting in enumerate(settings):
            if name.startswith("all") and setting in COLD:
                continue
            part = rows[rows["setting"] == setting]
            count, total = rises(part if name.startswith("all") else between_minima(part))
            if total:
                share, (low, high) = count / total, share_limits(count, total, 0.025)
                label = name if place == 0 else ""
                error = [[share - low], [high - share]]
                ax.errorbar(share, place + shift, xerr=error, fmt="o", color=colour, markersize=4, label=label)
    ax.axvline(MOST, color=GREY, linewidth=0.6, linestyle=":")
    ax.set_yticks(
        range(len(settings)), [str(setting).replace(" 0.", "\n0.").replace(" 100", "\n100") for setting in settings]
    )
    ax.invert_yaxis()
    ax.set(xlabel="share at which it rises", xlim=(-0.02, 1.02))


EXPERIMENT = Experiment(
    name="stagewise",
    shows="At n = 1000 the estimated learning coefficient rises where the loss falls from polygon to polygon",
    source="Chen et al. (2023), section 5",
    scales={
        "smoke": Scale(sweep, trials=4),
        "laptop": Scale(sweep, trials=100),
        "paper": Scale(sweep, trials=400, part="our starts: the source's, at squares, are not run"),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    probes=PROBES,
    claims=[stagewise],
)
