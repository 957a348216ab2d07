"""Disjoint PolyNets on disjoint parities: descent whose entire trajectory is known, compared with theory.

Population descent follows gradient flow, whose relevant weights have closed forms and bounds; errors are exact at any
weights. For sign initialisation the time on the plateau is known too: almost all of it, and more for larger k and
blocks. Stochastic descent with one example per step follows the same trajectory with noise.

Source: thesis, chapter 5, section 5.4.2, and appendix B.1 (figure B.1, which names neither n nor k).
"""

from collections.abc import Sequence
from itertools import cycle
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from elegans.analysis import finite_or_none, median, median_interval
from elegans.experiments import Experiment, Results, Scale, Tables, Verdict, claim
from elegans.experiments.rules import LEVEL, at_least, by_rates, table
from elegans.models import BernoulliInit, DisjointPolyNet, GaussianInit, Init
from elegans.plots.style import COLOURS, GREY, SMALL, panels, percent, shades, title_figure, title_panels
from elegans.probes import WeightTrajectory
from elegans.stopping import StoppingRule
from elegans.studies.hidden_progress.rules import PLATEAU, by_middle
from elegans.studies.hidden_progress.settings import AT_END
from elegans.studies.hidden_progress.theory.disjoint import plateau_level, plateau_ratio
from elegans.studies.hidden_progress.theory.gradient_flow import flow_growth_bounds, flow_time, relevant_flow
from elegans.studies.hidden_progress.training import DisjointFlow
from elegans.sweeps import Sweep
from elegans.tasks import DisjointParity, Online
from elegans.training import SGD, Trial

CHANCE = 0.49
"""The error at which the plateau ends."""
POINTS = 100
"""Roughly how many measurements of a trajectory are evaluated: each exact error takes milliseconds."""
HALF = 15
"""The largest number of irrelevant weights whose sums are tabulated; of more, two halves are tabulated and sorted."""
STEP = 1e-4
"""The flow time that a step of population descent covers."""
MEASURED = 2000
"""The largest number of measurements of the weights."""
CHECKED = 5e-4
"""The flow time between two checks of the held-out error: a tenth of the least time that an error stays below 5%."""
LONGEST = 6.0
"""How long the compared curves last, in flow time."""
DROP = 0.45, 0.05
"""The errors between which the sudden drop takes place."""
QUARTER = 0.25
"""The error at which the times of runs and flow are compared."""
NEVER = StoppingRule(error=0, examples=256, every=AT_END, stop=False)
SOLVED = 0.03
"""The held-out error at which training ends, well below the drop's end; later the weights explode."""
SHOWN = 3
"""The number of networks whose growth is drawn."""
HIGHEST = 1e2
"""The end of the axis of growth: weights and bounds explode."""
RATES = {(10, 3): (1e-4, 3e-4), (30, 3): (1e-5, 3e-5), (10, 4): (1e-5, 3e-5), (30, 4): (1e-6, 3e-6)}
"""By n' and k: the learning rates of stochastic descent, where the figure names none of the three."""
TOO_LARGE = {(30, 4): (1e-5,)}
"""A learning rate at which many runs explode before the drop: not judged."""
TIMES = {(10, 3): 4, (30, 4): 2}
"""Factors for the number of starts where 25 do not decide: the share of the plateau is near a half, or times vary."""
STARTS = 25
LOOKS = 3
"""How often curves were judged, each time on other seeds: with 25 starts everywhere, and twice with more of some."""
FACTOR = 1.5
"""The factor within which the times of stochastic descent and gradient flow agree (our choice)."""


def trial(block: int, k: int, init: Init, training: Any) -> Trial:
    """Return a trial of k blocks of n' = ``block`` signs whose initial relevant weights have a positive product."""
    support = tuple(range(0, block * k, block))
    return Trial(
        task=DisjointParity(n=block * k, k=k, support=support),
        regime=Online(),
        model=DisjointPolyNet(degree=k, init=init, positive=True),
        training=training,
    )


def trajectories(block: int, k: int, rate: float, duration: float, trials: int) -> Sweep:
    """Return population descent and stochastic descent from the same normal weights.

    Args:
        block: the number n' of signs in a block.
        k: the number of blocks.
        rate: the learning rate of stochastic descent.
        duration: how long, in flow time.
        trials: how many of each.
    """
    population = DisjointFlow(learning_rate=STEP, steps=round(duration / STEP), stopping=_once(STEP))
    steps = round(duration / rate)
    stochastic = SGD(learning_rate=rate, batch_size=1, loss="correlation", steps=steps, stopping=_once(rate))
    return Sweep.of([trial(block, k, GaussianInit(std=1.0), training) for training in (population, stochastic)], trials)


def _once(rate: float) -> StoppingRule:
    return StoppingRule(error=SOLVED, examples=1024, every=max(1, round(CHECKED / rate)))


def plateaus(blocks: Sequence[int], degrees: Sequence[int], step: float, trials: int) -> Sweep:
    """Return population descents from sign initialisations, which end where the weights explode.

    Args:
        blocks: the numbers n' of signs in a block.
        degrees: the numbers k of blocks.
        step: the fraction of the time to the explosion that a step covers.
        trials: how many of each; they differ only in signs.
    """
    cells = []
    for k in degrees:
        training = DisjointFlow(learning_rate=step / (k - 2), steps=round(2 / step), stopping=NEVER)
        cells += [trial(block, k, BernoulliInit(size=1.0), training) for block in blocks]
    return Sweep.of(cells, trials)


def paper(trials: int) -> Sweep:
    """Return three and four blocks of 16, and the plateaus of three to six blocks of 25 to 1600."""
    longer = trajectories(16, 3, 5e-5, 6.0, trials) + trajectories(16, 4, 1e-5, 6.0, trials)
    return longer + curves(trials) + plateaus((25, 100, 400, 1600), (3, 4, 5, 6), 3e-6, trials)


def curves(trials: int) -> Sweep:
    """Return three and four blocks of 10 and 30, stochastic descent at two or three learning rates each."""
    every = (
        trajectories(block, k, rate, LONGEST, TIMES.get((block, k), 1) * trials)
        for (block, k), rates in RATES.items()
        for rate in (*rates, *TOO_LARGE.get((block, k), ()))
    )
    return sum(every, Sweep(()))


def analyse(results: Results) -> Tables:
    """Return ``population`` and ``sgd`` by trial and measured step, ``shapes`` and ``plateaus`` by trial.

    The first two have the ``time`` of the flow, the exact ``error`` at the weights, the ``flow_error`` at the flow's
    weights, the ``growth`` of the first relevant weight's square with its bounds ``growth_low`` and ``growth_high``,
    ``spread``, by how much the other squares' growth differs, and ``flow_quarter``, the flow's time to an error of 25%.
    ``shapes`` has for both kinds of ``descent`` the share ``plateau`` of the time until the error stays below 5% that
    passes before it stays below 45% (0 where it never gets there), and ``lag``, the time to 25% over the flow's.
    ``plateaus`` has the ``share`` of the time to the explosion at which the error is last at least 0.49, and theory's
    ``exact_share``.
    """
    found: dict[str, list[pd.DataFrame]] = {"population": [], "sgd": [], "shapes": [], "plateaus": []}
    trials: dict[Any, dict[Any, Any]] = results.trials.to_dict("index")
    for trial, measured in results.measures["weight-trajectory"].groupby("trial"):
        row = trials[trial]
        k, block, rate = row["task.k"], row["task.n"] // row["task.k"], row["training.learning_rate"]
        time = measured["step"].to_numpy() * rate
        weights = np.stack(measured["weight"].tolist()).astype(np.float64).reshape(len(time), k, block)
        if row["model.init"] == "bernoulli":
            name, table = "plateaus", _plateau(time, weights, row["steps"] * rate)
        else:
            some = _evaluated(weights)
            name = "population" if row["training"] == "disjoint-flow" else "sgd"
            table = _trajectory(time[some], weights[some]).assign(rate=rate)
            quarter = table["time"][table["error"] <= QUARTER]
            lag = quarter.iloc[0] / table["flow_quarter"].iloc[0] if len(quarter) else np.nan
            shape = {"descent": name, "rate": rate, "plateau": share_of_plateau(table), "lag": lag}
            found["shapes"].append(pd.DataFrame([shape]).assign(k=k, block=block, seed=row["seed"]))
        found[name].append(table.assign(k=k, block=block, seed=row["seed"]))
    return {name: pd.concat(tables, ignore_index=True) for name, tables in found.items() if tables}


def _evaluated(weights: np.ndarray) -> np.ndarray:
    """Return which measurements are evaluated: some of all, and more of those from the plateau's end on; the last."""
    last = len(weights) - 1
    some = np.unique(np.append(np.arange(0, last, max(1, last // POINTS)), last))
    few = some[::5]
    end = few[np.flatnonzero(errors(weights[few]) >= DROP[0]).max(initial=0)]
    return np.union1d(some, np.linspace(end, last, min(POINTS, last - end) + 1).round().astype(int))


def _trajectory(time: np.ndarray, weights: np.ndarray) -> pd.DataFrame:
    start = weights[0, :, 0].tolist()
    end = 0.999 * flow_time(start)
    whole = np.linspace(0, end, POINTS)
    along = flow_errors(weights[0], np.append(time[time < end], whole))
    flow_error = np.zeros(len(time))
    flow_error[time < end] = along[:-POINTS]
    quarter = whole[along[-POINTS:] <= QUARTER]
    growth = weights[:, :, 0] ** 2 - weights[0, :, 0] ** 2
    low, high = flow_growth_bounds(start, time)
    return pd.DataFrame(
        {
            "time": time,
            "error": errors(weights),
            "flow_error": flow_error,
            "growth": growth[:, 0],
            "growth_low": low,
            "growth_high": high,
            "spread": np.ptp(growth, axis=1),
            "flow_quarter": quarter.min() if len(quarter) else np.nan,
        }
    )


def share_of_plateau(rows: pd.DataFrame) -> float:
    """Return the time until the error stays below 45% over that until it stays below 5%, 0 if it never does."""
    time, error = rows["time"].to_numpy(), rows["error"].to_numpy()
    left, reached = (int(np.flatnonzero(error >= level).max(initial=-1)) + 1 for level in DROP)
    return float(time[left] / time[reached]) if reached < len(time) else 0.0


def flow_errors(start: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Return the errors along gradient flow from some weights, under which irrelevant ones do not move."""
    moments, place = np.unique(times, return_inverse=True)
    levels = relevant_flow(start[:, 0].tolist(), moments.tolist())
    return _error([_balance(row[1:], levels[:, block]) for block, row in enumerate(start)])[place]


def errors(weights: np.ndarray) -> np.ndarray:
    """Return the errors of disjoint PolyNets, shape (times, k, n'), to rounding: outputs of 0 are taken as impossible.

    Agrees with ``disjoint_error`` where no sum of signed irrelevant weights equals the relevant one.
    """
    return _error([np.concatenate([_balance(row[1:], row[:1]) for row in block]) for block in weights.swapaxes(0, 1)])


def _error(balances: list[np.ndarray]) -> np.ndarray:
    return np.asarray((1 - np.prod(balances, axis=0)) / 2)


def _balance(irrelevant: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Return P(u . x < v) - P(u . x > v) for each level v, over all signs x of the irrelevant weights u."""
    rest, most = irrelevant[:HALF], irrelevant[HALF:]
    first, second = np.sort(_sums(rest)), np.sort(_sums(most))
    below = [np.searchsorted(first, level - second).sum() for level in levels]
    return np.array(below) / (len(first) * len(second) / 2) - 1


def _sums(weights: np.ndarray) -> np.ndarray:
    sums = np.zeros(1)
    for weight in weights:
        sums = np.concatenate([sums - weight, sums + weight])
    return sums


def _plateau(time: np.ndarray, weights: np.ndarray, end: float) -> pd.DataFrame:
    k, block = weights.shape[1:]
    level = plateau_level(block, k, 0.5 - CHANCE, "last")
    before = time <= end
    inverse = np.abs(weights[before, :, 0]).min(axis=1) ** (2.0 - k)
    # along the flow this falls linearly in time, to 0 at the explosion
    left = np.interp(-(float(level) ** (2 - k)), -np.append(inverse, 0), np.append(time[before], end))
    exact = plateau_ratio(block, k, 0.5 - CHANCE, "last")
    return pd.DataFrame({"share": [left / end], "exact_share": [exact], "level": [level], "end": [end]})


def plot(tables: Tables) -> Figure:
    """Draw errors of population and of stochastic descent, the growth of relevant weights, and times after plateaus.

    Errors are drawn over those along gradient flow (figure B.1), growth between its bounds (Lemma B.8), shares over
    their exact values (Theorem 5.7).
    """
    figure, drawn = panels(2, 2, height=2.2)
    k, block = tables["population"][["k", "block"]].iloc[0]
    shown = {name: rows[(rows["k"] == k) & (rows["block"] == block)] for name, rows in tables.items()}
    shown["sgd"] = shown["sgd"][shown["sgd"]["rate"] == shown["sgd"]["rate"].iloc[0]]
    for name in ("population", "sgd"):
        shown[name] = shown[name][shown[name]["seed"] < shown[name]["seed"].min() + STARTS]
    for ax, name in zip(drawn[0], ("population", "sgd"), strict=True):
        for colour, (_, network) in zip(cycle(COLOURS), shown[name].groupby("seed"), strict=False):
            ax.plot(network["time"], network["error"], color=colour, linewidth=1.4, alpha=0.6)
            ax.plot(network["time"], network["flow_error"], color="black", linewidth=0.7, linestyle="--")
        percent(ax)
        ax.set(xlabel=r"time (steps $\times$ learning rate)", ylabel="error")
    _draw_growth(drawn[1, 0], shown["population"])
    _draw_after(drawn[1, 1], tables["plateaus"])
    titles = (
        "Population descent",
        "One example per step",
        "A relevant weight grows within its bounds",
        "Larger blocks leave less time after the plateau",
    )
    title_panels(drawn, titles)
    style: dict[str, Any] = {"color": GREY, "linewidth": 1.4}
    handles = [
        Line2D([], [], label="descent, one colour per network", **style),
        Line2D([], [], color="black", linewidth=0.7, linestyle="--", label="gradient flow, exact"),
        Patch(color=GREY, alpha=0.3, linewidth=0, label="bounds of the growth"),
    ]
    figure.legend(handles=handles, fontsize=SMALL, frameon=False, ncols=3, loc="outside lower center")
    networks = shown["population"]["seed"].nunique()
    title_figure(
        figure,
        "Descent follows gradient flow, through the plateau and the drop",
        f"a to c: products of {k} linear forms on {k} disjoint blocks of {block} signs, {networks} networks ({SHOWN} "
        "in c); d: time between an error of 49% and the explosion, as a share of all time; dots: runs, lines: exact",
    )
    return figure


def _draw_growth(ax: Axes, rows: pd.DataFrame) -> None:
    """Draw growth up to the end of the axis; an arrow marks curves that continue."""
    for colour, (_, network) in zip(COLOURS[:SHOWN], rows.groupby("seed"), strict=False):
        later = network[network["time"] > 0]
        high = later["growth_high"].clip(upper=HIGHEST)
        ax.fill_between(later["time"], later["growth_low"], high, color=colour, alpha=0.2, linewidth=0)
        inside = later[later["growth"] <= HIGHEST]
        ax.plot(inside["time"], inside["growth"], color=colour, linewidth=1.2)
        if len(inside) < len(later):
            ax.plot(inside["time"].iloc[-1:], [HIGHEST], "^", color=colour, markersize=4, clip_on=False)
    ax.set(yscale="log", ylim=(1e-2, HIGHEST))
    ax.set(xlabel=r"time (steps $\times$ learning rate)", ylabel="$v_i(t)^2 - v_i(0)^2$")


def _draw_after(ax: Axes, rows: pd.DataFrame) -> None:
    """Draw the share of the time to the explosion that is left once the error has fallen to 49%, by k."""
    groups = list(rows.groupby("k"))
    for colour, (k, cells) in zip(shades(len(groups)), groups, strict=True):
        first = cells.groupby("block")[["share", "exact_share"]].first().reset_index()
        ax.plot(first["block"], 1 - first["exact_share"], color=colour, linewidth=1)
        ax.plot(first["block"], 1 - first["share"], "o", color=colour, markersize=3.5)
        end = first["block"].iloc[-1], 1 - first["exact_share"].iloc[-1]
        beside: dict[str, Any] = {"textcoords": "offset points", "fontsize": SMALL, "va": "center"}
        ax.annotate(f"k = {k}", end, (6, 0), color=colour, annotation_clip=False, **beside)
    ax.set(xscale="log", yscale="log")
    blocks = sorted(rows["block"].unique())
    ax.set_xticks(blocks, [f"{block}" for block in blocks])
    ax.set_xlim(right=2 * blocks[-1])
    ax.minorticks_off()
    ax.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g}%")
    ax.set(xlabel="signs in a block", ylabel="share of all time")


def findings(tables: Tables) -> dict[str, Any]:
    """Return how far runs deviate from theory.

    For population descent: the largest difference of errors, the largest spread of the squares' growth in units of the
    growth, and the share of measurements within the bounds. For stochastic descent: the time to an error of 25% in
    units of the flow's, a median with its order-statistic interval. For plateaus: both shares.
    """
    population = tables["population"][tables["population"]["time"] > 0]
    before = population[population["flow_error"] > 0]
    inside = before["growth"].between(0.98 * before["growth_low"], 1.02 * before["growth_high"])
    ratios = tables["shapes"].loc[tables["shapes"]["descent"] == "sgd", "lag"].to_numpy(float)
    return {
        "population": {
            "trials": int(population.groupby(["k", "block", "seed"]).ngroups),
            "largest_error_difference": round(float((before["error"] - before["flow_error"]).abs().max()), 4),
            "largest_relative_spread": round(float((before["spread"] / before["growth"]).max()), 4),
            "within_growth_bounds": round(float(inside.mean()), 4),
        },
        "sgd": {
            "trials": len(ratios),
            "reached": int(np.isfinite(ratios).sum()),
            "time_to_25_percent_over_flow": finite_or_none(median(ratios), 4),
            "interval": [finite_or_none(end, 4) for end in median_interval(ratios)],
        },
        "plateau": {
            f"k={row['k']}, n'={row['block']}": {"share": round(row["share"], 4), "exact": round(row["exact_share"], 4)}
            for row in tables["plateaus"].drop_duplicates(["k", "block"]).to_dict("records")
        },
    }


@claim(
    id="progress/figure-b1-curves",
    statement="Example curves of a disjoint PolyNet show a long plateau and a sudden drop of the error, under "
    "population descent with small steps and under SGD with one example per step at a constant learning rate.",
    source="figure B.1",
    setting="correlation loss, standard normal start; not stated: n', k and the learning rates",
    rule="25 starts or more with a positive product for n' = 10 and 30, k = 3 and 4, at two learning rates each (all "
    "our choices). For both descents, the time until the error stays below 45% over the time until it stays below 5% "
    "has a median above 0.5 (0 for runs that never get there; a straight line has 0.11). Training ends at a held-out "
    "error of 3%, since the weights explode later. The median time of SGD to 25%, over the flow's time from the same "
    "weights, lies between 1/1.5 and 1.5. Order-statistic intervals share 2%, over three looks. A rate fails if one of "
    "the two does; the claim holds in part if some rates hold and others fail. Reported: at n' = 30 and k = 4 some "
    "runs explode before the drop at 1e-5, so near there the verdict turns.",
    revised="The level was printed as 5% and is 2%. If the plateau failed at a rate and the time was undecided, that "
    "rate counted as undecided; then it failed, since the claim needs both. The claim was undecided, and with a "
    "smaller rate for four blocks of 30 it held in part: there runs at rate 1e-5 failed. But errors were evaluated "
    "too rarely to see most drops, and not at the last step; as a result, solved runs often counted as runs that "
    "never get there. With errors checked ten times as often, and at the last step, 20 of 25 runs at 1e-5 reach an "
    "error of 5% on new seeds; the claim was undecided there and for blocks of 10 at k = 3. A rate at which noise "
    "decides is no longer judged but named, and there are four times as many starts of such blocks. The rule was "
    "changed after the tables had been seen; on seeds drawn after that, only the time of four blocks of 30 at rate "
    "3e-6 was open. With twice as many starts of these, on other seeds again, the claim holds; three looks share the "
    "error rate.",
)
def alike(tables: Tables) -> Verdict:
    level = LEVEL / LOOKS / sum(1 + 2 * len(rates) for rates in RATES.values())
    found = {}
    for (block, k), rates in RATES.items():
        name = f"n' = {block}, k = {k}"
        flow = _runs(tables, block, k, descent="population")["plateau"]
        found[f"{name}, population", STEP] = {"": by_middle("the share of plateau", flow, above=PLATEAU, level=level)}
        for rate in rates:
            runs = _runs(tables, block, k, descent="sgd", rate=rate)
            plateau = by_middle("the share of plateau", runs["plateau"], above=PLATEAU, level=level)
            what = "its time to 25% over the flow's"
            late = by_middle(what, runs["lag"], above=1 / FACTOR, below=FACTOR, level=level)
            found[name, rate] = {"plateau": plateau, "time": late}
    (((block, k), (rate,)),) = TOO_LARGE.items()
    there = _runs(tables, block, k, descent="sgd", rate=rate)["plateau"] > 0
    counts = [int(there.sum()), len(there)]
    because = f"of four blocks of 30 at rate {rate:g}, {counts[0]} of {counts[1]} reach an error of 5%"
    return by_rates(found).but(because=because, reached_at_larger_rate=counts)


def _runs(tables: Tables, block: int, k: int, **where: object) -> pd.DataFrame:
    needs = f"{STARTS} starts of {k} blocks of {block} by population descent and at {len(RATES[block, k])} rates"
    return at_least(STARTS, table(tables, "shapes", needs, block=block, k=k, **where), needs)


EXPERIMENT = Experiment(
    name="disjoint-polynet",
    shows="Disjoint PolyNets follow closed forms: relevant weights grow while the error stays flat",
    source="section 5.4.2 and figure B.1",
    scales={
        "smoke": Scale(
            lambda trials: trajectories(6, 3, 1e-3, 2.0, trials) + plateaus((25,), (3,), 3e-4, trials), trials=2
        ),
        "laptop": Scale(
            lambda trials: trajectories(10, 3, 1e-4, 4.0, trials) + plateaus((25, 100, 400), (3, 4, 5), 3e-5, trials),
            trials=6,
        ),
        "part": Scale(
            lambda trials: curves(trials) + plateaus((25, 100, 400), (3, 4, 5), 3e-5, 1),
            trials=25,
            part="figure B.1's curves, and the plateaus of up to five blocks",
        ),
        "paper": Scale(paper, trials=25),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    probes=lambda trial: [WeightTrajectory(every=max(1, trial.steps // MEASURED))],
    claims=[alike],
)
