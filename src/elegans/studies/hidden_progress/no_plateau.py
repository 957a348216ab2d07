"""Is there a plateau at all? Wide z^k networks against ReLU networks.

The initial phase of training lasts until the error first reaches 45%. In its middle the error is 50% on a plateau, and
47.5% if it falls along a straight line. How long the phase lasts, as a share of the time to an error of 5%, says
nothing about its shape. The wider a z^k network, the more of its neurons correlate with the parity from the first step,
each a little; ReLU networks stay at chance until the relevant weights have grown.

Source: thesis, chapter 5 and appendix B.3.8 (figure B.13), which names no learning rate.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, product
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from elegans.analysis import finite_or_none, median, median_interval
from elegans.experiments import Experiment, Option, Results, Scale, Tables, Verdict, claim, parts
from elegans.experiments.claims import FAILS, HOLDS
from elegans.experiments.rules import LEVEL, at_least, by_rates, combine, decided, holm, table
from elegans.plots.marks import band
from elegans.plots.style import GREY, figure_legend, panels, percent, shades, title_figure, title_panels
from elegans.probes import HeldOutErrorRate
from elegans.stopping import StoppingRule
from elegans.studies.hidden_progress.rules import FLAT, MIDDLE, by_middle, middle_errors
from elegans.studies.hidden_progress.settings import configuration
from elegans.sweeps import Sweep, grid

LEAVES, ENDS = 0.45, 0.05
"""The errors at which a plateau ends, and at which the task is practically learned."""
RATE, RELU_RATE = 0.03, 0.1
NETWORKS = {"z^k": ("v", RATE), "relu": ("ii", RELU_RATE)}
"""The thesis' id whose width is varied, and the learning rate."""
TITLES = {"z^k": "$z^k$", "relu": "ReLU"}
CELL = ("network", "model.width", "training.batch_size", "training.learning_rate")
WIDTHS, BATCHES, LARGEST = (10, 100, 1000), (32, 128, 1024), 4096
TRIALS = 20
JUDGED = (
    ("vi", 1000, 1, 0.001),
    ("vi", 1000, 1024, 0.01),
    ("v", 100, 1024, 0.01),
    ("v", 100, 1024, RATE),
    ("v", 100, LARGEST, RATE),
)
"""The thesis' id, width, batch size and learning rate of the cells that should have no plateau."""
LOOKS = 2
"""How often their initial phase is judged: on 100 to 200 networks of width 100 per cell, and on 700 to 1000."""
GROWS = 1.05
"""By what factor the error falls faster, from the smallest to the largest width or batch, where it counts as faster."""
NEEDS = "25 trials per cell at (50, 3): the part scale"


def lines(
    kind: str,
    rate: float,
    widths: Sequence[int],
    batch_sizes: Sequence[int],
    trials: int,
    *,
    n: int = 50,
    steps: int = 100_000,
    every: int = 10,
) -> Sweep:
    """Return networks of one kind on the (n, 3)-parity, by width and batch size; training ends at an error of 2%."""
    stopping = StoppingRule(error=0.02, examples=4096, every=every)
    base = configuration(NETWORKS[kind][0], n, 3, learning_rate=rate, steps=steps)
    axes = {"model.width": widths, "training.batch_size": batch_sizes}
    return grid(base.replace("training.stopping", stopping), axes, seeds=trials)


def networks(
    n: int, widths: Sequence[int], relu_widths: Sequence[int], batch_sizes: Sequence[int], trials: int
) -> Sweep:
    """Return z^3 networks of some widths and ReLU networks of others, each kind at its learning rate."""
    given: dict[str, Any] = {"n": n, "steps": 50_000}
    polynomial = lines("z^k", RATE, widths, batch_sizes, trials, **given)
    return polynomial + lines("relu", RELU_RATE, relu_widths, batch_sizes, trials, **given)


def paper(trials: int) -> Sweep:
    """Return widths 10 to 1000 of both kinds, wider z^3 networks, and batches from 1 to 4096 on (50, 3)."""
    return networks(50, (*WIDTHS, 10_000), WIDTHS, (1, 4, 16, 64, 256, 1024, LARGEST), trials)


def part(trials: int) -> Sweep:
    """Return both kinds at the laptop's learning rates, batches of 1 to 4096; z^3 networks at other rates too.

    Narrow networks have more trials: the error of z^3 networks hardly falls at first, and ReLU networks vary. So have
    the networks of width 100 whose initial phase is judged, which is nearly flat.
    """
    return (
        lines("z^k", RATE, (10,), BATCHES, 40 * trials)
        + lines("z^k", RATE, (100,), BATCHES, 8 * trials)
        + lines("z^k", RATE, (1000,), BATCHES, trials)
        + lines("z^k", RATE, (1000,), (LARGEST,), trials)
        + lines("z^k", RATE, (100,), (LARGEST,), 4 * trials)
        + lines("z^k", 0.01, (100,), (1024,), 6 * trials)
        + lines("z^k", 0.01, (1000,), (1024,), 2 * trials)
        + lines("z^k", 0.001, (1000,), (1,), 2 * trials, every=100)
        + sum(
            (
                lines("relu", RELU_RATE, widths, batches, times * trials, every=every)
                for widths, times in (((10,), 4), ((100, 1000), 1))
                for batches, every in (((32, 1024, LARGEST), 10), ((1,), 100))
            ),
            Sweep(()),
        )
    )


def descents(trials: int) -> Sweep:
    """Return z^3 networks alone, narrow ones many times, with held-out errors on more examples."""
    times = {10: 60, 100: 30, 1000: 1}
    cells = sum((lines("z^k", RATE, (width,), BATCHES, times[width] * trials, every=50) for width in WIDTHS), Sweep(()))
    return Sweep(tuple((cell.replace("training.stopping.examples", 2**15), seeds) for cell, seeds in cells.parts))


def descent_alone(experiment: Experiment) -> Experiment:
    """Return only how fast the error of z^3 networks falls."""
    part = "the first fifth of the descent of z^3 networks"
    scales = {name: Scale(descents, trials=1 if name == "smoke" else 50, part=part) for name in experiment.scales}
    return replace(
        experiment, scales=scales, analyse=lambda results: {"rates": rates(errors(results))}, plot=None, findings=None
    )


def phases(trials: int) -> Sweep:
    """Return the z^3 networks whose initial phase is judged, until their errors are 5%; most of them of width 100."""
    judged = zip(JUDGED, (2, 2, 32, 40, 28), strict=True)
    cells = sum(
        (
            lines("z^k", rate, (width,), (batch,), times * trials, every=100 if batch == 1 else 10)
            for (_, width, batch, rate), times in judged
        ),
        Sweep(()),
    )
    return Sweep(tuple((cell.replace("training.stopping.error", ENDS), seeds) for cell, seeds in cells.parts))


def phase_alone(experiment: Experiment) -> Experiment:
    """Return only the initial phase of z^3 networks of widths 100 and 1000."""
    part = "the initial phase of z^3 networks of widths 100 and 1000"
    scales = {name: Scale(phases, trials=1 if name == "smoke" else 25, part=part) for name in experiment.scales}
    return replace(
        experiment, scales=scales, analyse=lambda results: {"table": middles(errors(results))}, plot=None, findings=None
    )


def analyse(results: Results) -> Tables:
    """Return two tables.

    ``table`` has one row per trial and measured step: the test error, when the trial left its plateau, and when it
    ended; ``plateau`` is the ratio of the two, ``halfway`` the error at half of the time to the end: NaN where there is
    none. ``rates`` has one row per trial of a z^k network: the ``descent``, by how much its error falls per step in the
    first fifth of the cell's median time to the end.
    """
    table = errors(results)
    return {"table": table, "rates": rates(table)}


def errors(results: Results) -> pd.DataFrame:
    """Return the table of errors of ``analyse``."""
    names = ["task.n", "task.k", "model.width", "training.batch_size", "training.learning_rate"]
    trials = results.trials[names].assign(network=np.where(results.trials["model.activation"] == "relu", "relu", "z^k"))
    found = results.measures["test-error"].join(trials, on="trial")
    for name, level in (("leaves", LEAVES), ("ends", ENDS)):
        first = found[found["error"] <= level].groupby("trial")["step"].first()
        found[name] = found["trial"].map(first).astype(float)
    halfway = {
        trial: np.interp(own["ends"].iloc[0] / 2, own["step"], own["error"]) for trial, own in found.groupby("trial")
    }
    halves = found["trial"].map(halfway).where(found["ends"].notna())
    return found.assign(plateau=found["leaves"] / found["ends"], halfway=halves).drop(columns="trial")


def middles(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table of errors of ``analyse`` at five steps in the middle of each trial's initial phase alone."""
    found = []
    for _, own in table.groupby([*CELL, "seed"], sort=False):
        steps = np.array(MIDDLE) * own["leaves"].iloc[0]
        rows = own.iloc[np.zeros(len(MIDDLE), int)]
        found.append(rows.assign(step=steps, error=np.interp(steps, own["step"], own["error"])))
    return pd.concat(found, ignore_index=True)


def rates(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table of descents of ``analyse``."""
    found, names = [], ["network", "task.n", "model.width", "training.batch_size", "training.learning_rate"]
    for cell, rows in table[table["network"] == "z^k"].groupby(names, sort=False):
        until = rows.groupby("seed")["ends"].last().fillna(np.inf).median() / 5
        first = {seed: np.interp(until, own["step"], own["error"]) for seed, own in rows.groupby("seed")}
        descent = (0.5 - np.array(list(first.values()))) / until
        found.append(pd.DataFrame({**dict(zip(names, cell, strict=True)), "seed": list(first), "descent": descent}))
    return pd.concat(found, ignore_index=True) if found else pd.DataFrame(columns=[*names, "seed", "descent"])


def plot(tables: Tables) -> Figure:
    """Draw test errors against the share of the time to an error of 5%, by network and width; colours are batch sizes.

    Medians and the bands of the middle 80% of networks, as figure B.13 with time in units of each trial's own. Dotted:
    the error of 45% at which a plateau ends.
    """
    table = tables["table"]
    usual = table["network"].map({network: rate for network, (_, rate) in NETWORKS.items()})
    table = table[table["training.learning_rate"] == usual].dropna(subset=["ends"])
    groups = [rows for _, rows in table.groupby(["network", "model.width"], sort=False)]
    columns = min(3, len(groups))
    down = -(-len(groups) // columns)
    figure, drawn = panels(down, columns, height=2.1 + 0.4 / down, sharex=True, sharey=True)
    axes = drawn.ravel()
    sizes = sorted(table["training.batch_size"].unique())
    colours = dict(zip(sizes, shades(len(sizes)), strict=True))
    titles = []
    for ax, rows in zip(axes, groups, strict=False):
        _draw(ax, rows, colours)
        first = rows.iloc[0]
        titles.append(f"{TITLES[first['network']]}, width {first['model.width']:,}")
    for ax in axes[len(groups) :]:
        ax.set_axis_off()
    for ax in drawn[-1]:
        ax.set_xlabel("steps / steps to an error of 5%")
    for ax in drawn[:, 0]:
        ax.set_ylabel("test error")
    title_panels(axes, titles)
    for size, colour in colours.items():
        axes[0].plot([], [], color=colour, label=f"{size} example{'s' if size > 1 else ''} per step")
    figure_legend(figure, axes[0], columns=4)
    trials = table.groupby(list(CELL))["seed"].nunique().agg(["min", "max"]).unique()
    title_figure(
        figure,
        "Wide cubic networks descend from the start; ReLU networks wait",
        f"({table['task.n'].iloc[0]}, 3) parity, {' to '.join(map(str, trials))} networks per curve, each over its "
        "own time to an error of 5%; lines: medians; bands: the middle 80% of networks; dotted: the end of a plateau",
    )
    return figure


def _draw(ax: Axes, rows: pd.DataFrame, colours: dict[Any, Any]) -> None:
    shares = np.linspace(0, 1, 61)
    for size, cell in rows.groupby("training.batch_size"):
        errors = [np.interp(shares, own["step"] / own["ends"], own["error"]) for _, own in cell.groupby("seed")]
        low, middle, high = np.quantile(errors, (0.1, 0.5, 0.9), axis=0)
        band(ax, shares, middle, low, high, colours[size], linewidth=1.2)
    ax.axhline(LEAVES, color=GREY, linewidth=0.6, linestyle=":")
    ax.set(xlim=(0, 1), ylim=(0, 0.53))
    percent(ax)


def findings(tables: Tables) -> dict[str, Any]:
    """Return each cell's median plateau share, halfway error and end, with order-statistic intervals."""
    cells = {}
    for (network, width, batch_size, rate), rows in tables["table"].groupby(list(CELL), sort=False):
        last = rows.groupby("seed").last()
        cell: dict[str, Any] = {"trials": len(last), "ended": int(last["ends"].notna().sum())}
        for name in ("plateau", "halfway", "ends"):
            values = last[name].to_numpy(float)
            cell[name] = finite_or_none(median(values), 4)
            cell[f"{name}_interval"] = [finite_or_none(end, 4) for end in median_interval(values)]
        unusual = "" if rate == NETWORKS[str(network)][1] else f", rate {rate:g}"
        cells[f"{network}, width {width}, batches of {batch_size}{unusual}"] = cell
    return cells


@claim(
    id="progress/wide-polynomial-no-plateau",
    statement="z^k networks of width 100 and 1000 have no plateau: in the initial phase the error appears to decrease "
    "with a linear slope.",
    source="section 5.3.1; appendix B.3.8; figures B.2 (fourth row) and B.13",
    setting="(50, 3), uniform initial weights; (vi) at B = 1 and rate 0.001 and at B = 1024 and rate 0.01, as printed "
    "for figure B.2 in appendix B.4.1, which has (v) and (vi) at B = 32 and rate 0.01 for the times of figure B.6; not "
    "stated: batch sizes and rates of (v) in training curves and of figure B.13, what counts as absent. Our choice: "
    "(v) at large batches, where the source sees progress: B = 4096 and rate 0.03, B = 1024 and rates 0.01 and 0.03",
    rule="The initial phase lasts until the held-out error first reaches 45%. There is no plateau if the mean error "
    "over its middle fifth has a median over 20 trials or more below 48.75%, and there is one if the median is above "
    "it: halfway between the 47.5% of a straight line and the 50% of a plateau (our choice). Order-statistic limits, "
    "2% over the five cells and two looks, the second on 700 networks or more in each cell of width 100. The claim "
    "holds, or fails, if it does in every cell, and holds in part if it holds in some and fails in others. The limit "
    "decides: (v) descends from the start, and its medians of 48.9% to 49% lie just above it: on these tables the "
    "claim would hold at a limit of 49.1% and fail at one of 47.5%. How long the phase lasts, as a share of the time "
    "to an error of 5%, is reported.",
    revised="First a part failed at one learning rate of our choice, then only if its share was above 1/2 at two; the "
    "error rate of 5% became 2%. Shares between 1/4 and 1/2 counted as in part, and the claim held in part. "
    "Then the printed batch sizes and rates of (vi), which the rule had overlooked, were judged, with shares "
    "of 0.62 and 0.37, and shares between 1/4 and 1/2 decided nothing: the claim was undecided, on fresh "
    "seeds too, and no number of trials would have decided it. Then one half parted both verdicts, and on "
    "seeds drawn after that change the claim held in part. But the source speaks of the initial phase and its "
    "slope, not of its length: a slow descent along a straight line counted as a plateau, and a short flat stretch "
    "did not. We changed the measure, knowing these tables. On seeds drawn after that, width 1000 has no plateau, "
    "and width 100 lies too near the limit, so the claim was undecided. A second look at more networks was declared "
    "then; both share the error rate. On new seeds width 100 fails, and the claim holds in part.",
)
def no_plateau(tables: Tables) -> Verdict:
    looks = LOOKS * len(JUDGED)
    cells = {
        (f"({name}), B = {batch}", rate): {"": _phase(tables, "z^k", (width, batch, rate), looks, below=FLAT)}
        for name, width, batch, rate in JUDGED
    }
    return replace(by_rates(cells), error_rate=LEVEL)


def _phase(
    tables: Tables,
    network: str,
    cell: tuple[int, int, float],
    judged: int,
    *,
    above: float = -np.inf,
    below: float = np.inf,
) -> Verdict:
    """Decide whether the error in the middle of a cell's initial phase lies below or above a limit."""
    rows = _rows(tables, network, *cell)
    rows = rows[rows["leaves"].notna()] if network == "relu" else rows
    what, level = "the error in the middle of the initial phase", LEVEL / judged
    error = by_middle(what, middle_errors(rows), above=above, below=below, level=level)
    share = float(rows.groupby("seed")["plateau"].last().median())
    return error.but(because=f"the phase takes {share:.2f} of the time to 5%", share_of_time=share)


@claim(
    id="progress/descent-rate-grows-with-width-and-batch",
    statement="For z^k networks the error falls faster with larger width and larger batches, as we read it in the "
    "initial phase.",
    source="appendix B.3.8; figure B.13",
    setting="(iv), (v), (vi), (50, 3); printed for other figures: B = 32 with rate 0.05 for (iv) (5.1) and 0.01 for "
    "all three (B.6), B = 1 and 1024 for (vi) with rates 0.001 and 0.01 (B.2); not stated: batch sizes and rates of "
    "figure B.13, and in which phase. Our choice: rate 0.03, B = 32, 128, 1024",
    rule="The drop of the error per step over the first fifth of the cell's median time to 5% (our choice). The later "
    "descent, from 45% to 5%, is not judged: it takes more steps at width 1000 than at 100, and there more with larger "
    "batches. Jonckheere's test of an increase with the width at each B and with B at each width; Holm at 1%. A line "
    "that does not increase fails if it decreases, or if the mean at the largest width or B is less than 1.05 times "
    "the mean at the smallest (our choice; z tests): Holm at 0.5% for each.",
    revised="The error rate was 5%; now the total is 2%, with the same verdict. With 25 trials per cell, the effect "
    "of the batch size was undecided at widths 10 and 100. Now there are 1000 and 200 trials, on other seeds; they "
    "show no growth with the batch size at width 10. The claim was still undecided, and without a bound on the growth "
    "it would have stayed so. A line with a growth of less than a quarter now fails, and errors are measured on eight "
    "times as many examples. On new seeds every line grows, by an eighth at width 10, and the claim holds. But a line "
    "with a true growth of an eighth, which the test may miss, could then fail; the bound is now a twentieth. The rule "
    "was changed after the tables had been seen; the verdict is the same.",
)
def faster_descent(tables: Tables) -> Verdict:
    found = {(width, batch): _descents(tables, width, batch) for width in WIDTHS for batch in BATCHES}
    rows = {f"widths at B = {batch}": [found[width, batch] for width in WIDTHS] for batch in BATCHES}
    rows |= {f"batch sizes at width {width}": [found[width, batch] for batch in BATCHES] for width in WIDTHS}
    more, fewer = (holm([_trend(sign, own) for own in rows.values()]) for sign in (1, -1))
    flat, parts = holm([_flat(own[0], own[-1]) for own in rows.values()]), {}
    for name, up, down, still in zip(rows, more, fewer, flat, strict=True):
        means = [100 * float(np.mean(own)) for own in rows[name]]
        because = f"percent per step {', '.join(f'{one:.3g}' for one in means)} (p = {up:.2g})"
        numbers = {"percent_per_step": means, "p": up, "p_of_decrease": down, "p_of_little_growth": still}
        grows = up <= LEVEL / 2
        no = not grows and min(down, still) <= LEVEL / 4
        parts[name] = decided(grows, no, because, numbers, LEVEL, "more trials")
    return combine(parts, error_rate=LEVEL)


@claim(
    id="progress/relu-plateau-at-every-batch",
    statement="ReLU networks keep their plateau at every batch size.",
    source="appendix B.3.8",
    setting="(50, 3); printed for figures 5.1 and B.2: width 1000 at B = 1 and 1024 and rate 0.1, width 100 at B = 1 "
    "and rate 0.05, width 10 at B = 32 and rate 0.5 and at B = 1024 and rate 0.05; for figure B.6: all three at B = 32 "
    "and rate 1; not stated: which batch sizes, widths and rates the remark is about. Our choice: widths "
    "10 to 1000, B = 1 to 4096, rate 0.1",
    rule="The median error over the middle fifth of the initial phase, which lasts until the held-out error first "
    "reaches 45%, over the trials that reach it. Holds if it is above 48.75% in all twelve cells, fails if it is below "
    "in over half of them, and holds in part for the cells above it if some are below (our choice; a plateau has 50%, "
    "a straight line 47.5%); 2% over the cells.",
    revised="First the claim failed because one of twelve cells was below 1/2, at a learning rate of our choice. Then "
    "it held in part, for all but this cell, on the same tables; the error rate of 5% became 2%. When a cell "
    "had to be below 1/4 to count against the claim, it was undecided, on fresh seeds too, at 0.20 with "
    "limits of 0.10 and 0.39. Then one half parted both verdicts, with four times as many trials at width 10; on "
    "seeds drawn after that change the claim held in part, for all but width 10 at B = 1, whose error is flat at first "
    "and then descends in steps. As for z^k networks, the shape of the initial phase now decides, not its length. We "
    "knew these tables; on seeds drawn after the change the claim holds.",
)
def relu_plateau(tables: Tables) -> Verdict:
    cells = list(product(WIDTHS, (1, 32, 1024, LARGEST)))
    parts = {}
    for width, batch in cells:
        cell = (width, batch, RELU_RATE)
        parts[f"width {width}, B = {batch}"] = _phase(tables, "relu", cell, len(cells), above=FLAT)
    words = {name: one.verdict for name, one in parts.items()}
    missed = [name for name, word in words.items() if word == FAILS]
    middles = {name: one.numbers["estimate"] for name, one in parts.items()}
    least = min(middles, key=lambda name: middles[name])
    because = f"the least median error of {len(parts)} cells is {100 * middles[least]:.2f}%, at {least}; "
    because += f"below {100 * FLAT}%: {len(missed)}"
    numbers = {name: one.numbers for name, one in parts.items()}
    open_cells = [name for name, word in words.items() if word != HOLDS and name not in missed]
    needs = f"more trials at {'; '.join(open_cells)}"
    no, plateau = 2 * len(missed) > len(parts), [name for name, word in words.items() if word == HOLDS]
    part = f"holds at {'; '.join(plateau)}" if missed and plateau and not no else ""
    return decided(len(plateau) == len(parts), no, because, numbers, LEVEL, needs, part=part)


def _descents(tables: Tables, width: int, batch: int) -> np.ndarray:
    where = {"task__n": 50, "model__width": width, "training__batch_size": batch, "training__learning_rate": RATE}
    needs = "rates of descent: elegans run no-plateau --scale paper --parts descent"
    found = table(tables, "rates", needs, network="z^k", **where)["descent"]
    return np.asarray(at_least(TRIALS, found, needs), float)


def _flat(first: np.ndarray, last: np.ndarray) -> float:
    """Return the one-sided p that the mean of the last sample is below ``GROWS`` times the mean of the first."""
    from scipy.stats import norm

    means, errors = ([float(measure(own)) for own in (first, last)] for measure in (np.mean, _standard_error))
    return float(norm.cdf((means[1] - GROWS * means[0]) / np.hypot(errors[1], GROWS * errors[0])))


def _standard_error(values: np.ndarray) -> float:
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))


def _trend(sign: int, groups: list[np.ndarray]) -> float:
    """Return the one-sided p of Jonckheere's test that values increase from group to group, by its normal limit."""
    from scipy.stats import norm

    pairs = [sign * (second[None, :] - first[:, None]) for first, second in combinations(groups, 2)]
    statistic = sum(float((pair > 0).sum() + 0.5 * (pair == 0).sum()) for pair in pairs)
    sizes = np.array([len(own) for own in groups], float)
    total = sizes.sum()
    mean = (total**2 - (sizes**2).sum()) / 4
    variance = (total**2 * (2 * total + 3) - (sizes**2 * (2 * sizes + 3)).sum()) / 72
    return float(norm.sf((statistic - mean) / np.sqrt(variance)))


def _rows(tables: Tables, network: str, width: int, batch: int, rate: float) -> pd.DataFrame:
    where = {"task__n": 50, "model__width": width, "training__batch_size": batch, "training__learning_rate": rate}
    rows = table(tables, "table", NEEDS, network=network, **where)
    at_least(TRIALS, rows["seed"].unique(), NEEDS)
    return rows


EXPERIMENT = Experiment(
    name="no-plateau",
    shows="The error of wide z^k networks falls slowly from the start, where ReLU networks wait on a plateau",
    source="appendix B.3.8, figure B.13",
    scales={
        "smoke": Scale(lambda trials: networks(20, (30,), (30,), (32,), trials), trials=3),
        "laptop": Scale(lambda trials: networks(50, (*WIDTHS, 3000), (100, 1000), BATCHES, trials), trials=6),
        "part": Scale(part, trials=25, part="widths up to 1000 and batches of 1, 32, 128, 1024 and 4096"),
        "paper": Scale(paper, trials=25),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    probes=lambda trial: [HeldOutErrorRate(every=trial.stopping.every, examples=trial.stopping.examples)],
    claims=[no_plateau, faster_descent, relu_plateau],
    options={
        "parts": Option(
            "all, or descent: only how fast the error of z^k networks falls; or phase: only whether there is a plateau",
            parts(descent=descent_alone, phase=phase_alone),
        )
    },
)
