"""Two steps with a curriculum: exact weights against those from sampled sequences, and how well they predict.

One step on chains with flat rows, from W = w 1 1^T and v = 1; then one on chains close to coin flips, a = b within
epsilon of 1/2, with all earlier weights forgotten. The proposition says that logits become O(eps^4) times counts of
bigrams plus O(eps^6): this is true entry by entry, but not for the sum over all of v's coordinates.

Source: thesis, Propositions 8.5 and E.3.
"""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from elegans.analysis import round_significant
from elegans.experiments import Experiment, Results, Scale, Tables
from elegans.plots.style import COLOURS, GRAMS, GREY, SMALL, panels, title_figure, title_panels
from elegans.probes import ParameterTrajectory
from elegans.studies.induction_heads.curriculum_claims import CLAIMS
from elegans.studies.induction_heads.plots import finish, points
from elegans.studies.induction_heads.predictors import worth
from elegans.studies.induction_heads.steps import FEW, agreement, by_cell, one_step, step_tables
from elegans.studies.induction_heads.theory import curriculum as theory
from elegans.studies.induction_heads.theory.minimal import MinimalWeights, minimal_constant, minimal_step
from elegans.studies.induction_heads.theory.two_states import flat_tensor
from elegans.sweeps import Sweep
from elegans.tasks import MarkovChains
from elegans.training import SGD, Trial

FIRST, SECOND = 100.0, 10.0
"""The learning rates times t^2 and t. From w = 0 they only scale the result; at this size single precision suffices."""
EPSILON = 0.25
"""Half the length of the second step's interval, where it is fixed."""
EPSILONS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4)
MULTIPLES = (0.5, 1, 2, 4)
"""By measured length, the lengths of exact weights."""
STARTS = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
"""The initial entries w of W; the first step adds 0.19 off the diagonal and 0.76 on it, less O(1/t)."""
CELL = ("length", "epsilon", "start", "kept")
WORTH = ("bigram", "unigram", "counts", "own", "remainder", "loss", "bigram_loss", "unigram_loss")
"""The columns that identify a predictor, besides its source, and the columns that evaluate it."""


def second_step(length: int, epsilon: float, batch_size: int) -> Trial:
    """Return the second step by itself, from the exact weights after the first, which leaves v unchanged.

    Args:
        length: of a sequence.
        epsilon: half the length of the interval that a = b is sampled from.
        batch_size: in sequences.
    """
    pair = after(length, None).pair
    return one_step(
        f"symmetric2:{epsilon:g}",
        length,
        pair=float(pair[0, 1]),
        diagonal=float(pair[0, 0] - pair[0, 1]),
        position=1.0,
        learning_rate=SECOND / length,
        batch_size=batch_size,
        weight_decay=1.0,
        decay="parameters",
    )


def both_steps(trials: int) -> Sweep:
    """Return both steps on sequences of 100 tokens."""
    first = one_step(pair=0.0, position=1.0, learning_rate=FIRST / 100**2)
    return Sweep.of((first, second_step(100, EPSILON, 200)), trials)


def analyse(results: Results) -> Tables:
    """Return four tables; ``length`` is t, ``epsilon`` half the length of the second step's interval.

    ``pair``, ``position``: an entry of W (``entry``) or v (``place`` j) after ``step`` 1 or 2: ``exact``, and
    ``measured`` with its 95% interval ``low`` to ``high``, its standard ``error``, and the number of ``sequences``.
    ``weights``: exact weights after both steps: W's ``diagonal``, ``v_2``, ``v_4`` with and without the part common to
    all coordinates (``v_4_alone``), the sum of v's ``others`` than v_2, the ``largest_other`` and, for long sequences,
    the ``limit`` of the others over v_2.
    ``predictors``: how well weights (of ``source`` exact or measured) predict chains with flat rows at the last of
    ``length`` tokens: see ``predictors.worth``. ``start`` is w, ``kept`` whether v is kept.
    """
    parts: dict[str, list[pd.DataFrame]] = {"pair": [], "position": [], "predictors": []}
    for one, seen in by_cell(results):
        for name, rows in _cell(one, seen["pair"][:, -1], seen["position"][:, -1]).items():
            parts[name].append(rows)
    longest = max(int(rows["length"].max()) for rows in parts["position"])
    lengths = [round(multiple * longest) for multiple in MULTIPLES]
    cells = [*((length, EPSILON, 0.0, False) for length in lengths), *((longest, one, 0.0, False) for one in EPSILONS)]
    cells += [(longest, EPSILON, start, kept) for start in STARTS for kept in (False, True)]
    exact = [dict(zip(CELL, cell, strict=True)) | worth(after(*cell)) for cell in dict.fromkeys(cells)]
    parts["predictors"].append(pd.DataFrame(exact).assign(source="exact"))
    weights = pd.DataFrame([exact_weights(length, epsilon) for length in lengths for epsilon in EPSILONS])
    return {name: pd.concat(found, ignore_index=True) for name, found in parts.items()} | {"weights": weights}


def _cell(one: Trial, pairs: np.ndarray, positions: np.ndarray) -> Tables:
    """Return the rows of one measured step."""
    assert isinstance(one.task, MarkovChains) and isinstance(one.training, SGD)
    length, epsilon = one.task.length, getattr(one.task.prior, "epsilon", None)
    exact, count = after(length, epsilon), len(pairs) * one.training.batch_size
    own = {"length": length, "epsilon": epsilon, "step": 1 if epsilon is None else 2, "sequences": count}
    found = {name: rows.assign(**own) for name, rows in step_tables(exact, pairs, positions).items()}
    if epsilon is not None:
        means = MinimalWeights(pairs.mean(axis=0), positions.mean(axis=0))
        named = {"length": length, "epsilon": epsilon, "source": "measured", "start": 0.0, "kept": False}
        found["predictors"] = pd.DataFrame([named | {"sequences": count} | worth(means)])
    return found


def after(length: int, epsilon: float | None, start: float = 0.0, kept: bool = False) -> MinimalWeights:
    """Return the exact weights after both steps, or after the first where there is no epsilon."""
    if epsilon is None:
        constant = minimal_constant(2, length, start, 1.0)
        return minimal_step(flat_tensor(length), constant, FIRST / length**2)
    rates = FIRST / length**2, SECOND / length
    return theory.two_step_curriculum(length, epsilon, *rates, start=(start, 1.0), keep_position=kept)


def exact_weights(length: int, epsilon: float) -> dict[str, Any]:
    """Return a row of exact weights."""
    weights = after(length, epsilon)
    others = np.delete(weights.position, 1)
    second, fourth = (theory.curriculum_position(place, epsilon) for place in (2, 4))
    return {
        "length": length,
        "epsilon": epsilon,
        "diagonal": float(weights.pair[0, 0]),
        "v_2": float(weights.position[1]),
        "v_4": float(weights.position[3]),
        "v_4_alone": float(weights.position[1]) * fourth / second,
        "others": float(others.sum()),
        "largest_other": float(others.max()),
        "limit": theory.curriculum_background(epsilon),
    }


def slope(rows: pd.DataFrame, name: str) -> float:
    """Return the exponent with which a column grows in epsilon, between the two smallest epsilons."""
    few = rows.sort_values("epsilon").iloc[:2]
    rise = np.log(few[name].iloc[1] / few[name].iloc[0])
    return float(rise / np.log(few["epsilon"].iloc[1] / few["epsilon"].iloc[0]))


def plot(tables: Tables) -> Figure:
    """Draw two steps with a curriculum: lines are exact, points measured on sequences with 95% intervals."""
    weights, predictors = tables["weights"], tables["predictors"].query(f"epsilon == {EPSILON}")
    exact, seen = (predictors[predictors["source"] == source] for source in ("exact", "measured"))
    plain = exact[(exact["start"] == 0) & ~exact["kept"]].sort_values("length")
    measured, longest = int(seen["length"].iloc[0]), int(weights["length"].max())
    figure, axes = panels(2, 3, height=2.6)
    _coordinates(axes[0, 0], tables["position"].query("step == 2"))
    _powers(axes[0, 1], weights[weights["length"] == longest])
    _background(axes[0, 2], weights)
    _correlations(axes[1, 0], plain, seen)
    _worth(axes[1, 1], plain, seen)
    _starts(axes[1, 2], exact[exact["length"] == measured])
    above = (f"Coordinates of v, t = {measured}", f"Products of weights, t = {longest}", "All but $v_2$, by length")
    below = ("Correlation of logits with counts", "Loss, by length", f"Loss, by the start, t = {measured}")
    title_panels(axes, (*above, *below))
    finding = "After two steps of a curriculum $v_2$ is the largest coordinate of v, but less than the others' sum"
    task = r"Minimal model on chains of two symbols, second step on $a = b$ within $\epsilon$ of 1/2"
    title_figure(figure, finding, f"{task}; lines: exact; points in a, d and e: measured, 95% intervals")
    return figure


def _coordinates(ax: Axes, rows: pd.DataFrame) -> None:
    ax.axhline(0, color="0.8", linewidth=0.7, zorder=0)
    for colour, (epsilon, position) in zip(COLOURS, rows.groupby("epsilon"), strict=False):
        few = position[position["place"] <= FEW].copy()
        few[["exact", "measured", "low", "high"]] /= float(position["exact"].iloc[1])
        ax.plot(few["place"], few["exact"], color=colour, linewidth=1.2, label=f"$\\epsilon$ = {epsilon:g}")
        points(ax, few["place"], few, colour)
    ax.set_xticks(range(2, FEW + 1, 2))
    finish(ax, "position j", "$v_j / v_2$")


def _powers(ax: Axes, rows: pd.DataFrame) -> None:
    epsilon, diagonal = rows["epsilon"], rows["diagonal"]
    names = {"v_2": "$v_2$ W", "v_4": "$v_4$ W", "others": "all but $v_2$, W"}
    for colour, (name, label) in zip(COLOURS, names.items(), strict=False):
        ax.plot(epsilon, diagonal * rows[name], "o-", color=colour, markersize=2.5, linewidth=1, label=label)
    for power in (4, 6):
        reference = (diagonal * rows["v_2"]).iloc[-1] * (epsilon / epsilon.iloc[-1]) ** power / 30
        ax.plot(epsilon, reference, color="0.75", linewidth=0.8, zorder=0)
        text: dict[str, Any] = {"s": f"$\\epsilon^{power}$ ", "ha": "right", "fontsize": SMALL, "color": GREY}
        ax.text(epsilon.iloc[0], reference.iloc[0], **text)
    label = "$v_4$ W, long sequences"
    ax.plot(epsilon, diagonal * rows["v_4_alone"], "--", color=COLOURS[1], linewidth=0.8, label=label)
    ax.set(xscale="log", yscale="log", xlim=(float(epsilon.min()) / 2, None))
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    finish(ax, r"$\epsilon$", "coordinate times W")


def _background(ax: Axes, rows: pd.DataFrame) -> None:
    for colour, epsilon in zip(COLOURS, (0.1, 0.2, 0.4), strict=False):
        few = rows[rows["epsilon"] == epsilon]
        style: dict[str, Any] = {"color": colour, "markersize": 2.5, "label": rf"$\epsilon$ = {epsilon:g}"}
        ax.plot(few["length"], few["others"] / few["v_2"], "o-", **style)
        ax.axhline(float(few["limit"].iloc[0]), color=colour, linewidth=0.8, linestyle=":")
        ax.plot(few["length"], few["largest_other"] / few["v_2"], "s--", color=colour, markersize=2.2, linewidth=0.8)
    ax.plot([], [], "s--", color=GREY, markersize=2.2, linewidth=0.8, label="largest of them")
    ax.plot([], [], ":", color=GREY, linewidth=0.8, label="sum, long sequences")
    ax.set_ylim(0, 1.1 * float(rows["limit"].max()))
    _by_length(ax, rows, "other coordinates / $v_2$")


def _correlations(ax: Axes, rows: pd.DataFrame, seen: pd.DataFrame) -> None:
    for name in ("bigram", "unigram"):
        ax.plot(rows["length"], rows[name], color=GRAMS[name], linewidth=1.2, label=f"{name} counts")
        ax.plot(seen["length"], seen[name], "o", color=GRAMS[name], markersize=3)
    ax.plot(rows["length"], rows["counts"], "--", color=GREY, linewidth=0.9, label="of each other")
    ax.set_ylim(0.5, 1.01)
    _by_length(ax, rows, "correlation", columns=1)


def _worth(ax: Axes, rows: pd.DataFrame, seen: pd.DataFrame) -> None:
    ax.plot(rows["length"], rows["loss"], color="black", linewidth=1.2, label="logits, rescaled")
    ax.plot(seen["length"], seen["loss"], "o", color="black", markersize=3, label="measured")
    for name in ("unigram", "bigram"):
        colour, length = GRAMS[name], rows["length"]
        ax.plot(length, rows[f"{name}_loss"], color=colour, linewidth=1, label=f"{name} counts, rescaled")
        ax.plot(length, rows[f"line.{name}"], "--", color=colour, linewidth=0.8, label=f"{name} strategy")
    ax.set_ylim(0, 1.15 * float(rows["unigram_loss"].max()))
    _by_length(ax, rows, "loss, flat rows (KL, nats)")


def _by_length(ax: Axes, rows: pd.DataFrame, up: str, columns: int = 2) -> None:
    ax.set_xscale("log")
    lengths = sorted(rows["length"].unique())
    ax.set_xticks(lengths, map(str, lengths))
    ax.minorticks_off()
    finish(ax, "tokens t", up, columns)


def _starts(ax: Axes, rows: pd.DataFrame) -> None:
    for kept, colour, label in ((False, COLOURS[2], "v forgotten"), (True, COLOURS[3], "v kept")):
        few = rows[rows["kept"] == kept].sort_values("start")
        ax.plot(few["start"], few["loss"], "o-", color=colour, markersize=2.5, linewidth=1, label=label)
    for name in ("unigram", "bigram"):
        line = float(rows[f"line.{name}"].iloc[0])
        ax.axhline(line, color=GRAMS[name], linewidth=0.8, linestyle="--", zorder=0, label=f"{name} strategy")
    least = float(rows["start"][rows["start"] > 0].min())
    ax.set_xscale("symlog", linthresh=least)
    ax.set_xticks([0, 0.01, 0.1, 1])
    ax.minorticks_off()
    ax.set(xlim=(-least / 2, 1.3 * float(rows["start"].max())), ylim=(0, None))
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    finish(ax, "initial value w of W", "loss, flat rows (KL, nats)")


def findings(tables: Tables) -> dict[str, Any]:
    """Return how well measured and exact weights agree, the powers of epsilon, and how well predictors do."""
    result: dict[str, Any] = {}
    for part in ("pair", "position"):
        groups: Any = tables[part].groupby(["step", "epsilon"], sort=False, dropna=False)
        for (step, epsilon), rows in groups:
            name = f"{part} after step {step}" + ("" if pd.isna(epsilon) else f", epsilon = {epsilon:g}")
            result[name] = agreement(rows)
    weights, predictors = tables["weights"], tables["predictors"]
    longest = weights[weights["length"] == weights["length"].max()]
    products = longest.assign(**{name: longest["diagonal"] * longest[name] for name in ("v_2", "v_4", "others")})
    result["powers of epsilon"] = {name: round(slope(products, name), 3) for name in ("v_2", "v_4", "others")}
    plain = predictors.query("source == 'exact' and start == 0 and not kept")
    middle = plain[plain["length"] == plain["length"].value_counts().idxmax()]
    result["powers of epsilon on logits"] = {name: round(slope(middle, name), 3) for name in ("own", "remainder")}
    result["predictors"] = _rounded(predictors[["source", *CELL, *WORTH]])
    ratios = weights[["length", "epsilon", "limit"]].assign(ratio=weights["others"] / weights["v_2"])
    result["others over v_2"] = _rounded(ratios)
    return result


def _rounded(rows: pd.DataFrame) -> list[dict[Any, Any]]:
    return [
        {name: round_significant(value) if isinstance(value, float) else value for name, value in row.items()}
        for row in rows.to_dict("records")
    ]


EXPERIMENT = Experiment(
    name="curriculum",
    shows="After two curriculum steps v_2 exceeds every other coordinate, not their sum: unigrams remain in the logits",
    source="Propositions 8.5 and E.3",
    scales={
        "smoke": Scale(lambda trials: Sweep.of([second_step(20, EPSILON, 128)], trials), trials=8),
        "laptop": Scale(both_steps, trials=60),
        "paper": Scale(both_steps, trials=5000),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    probes=[ParameterTrajectory(every=1)],
    claims=CLAIMS,
)
