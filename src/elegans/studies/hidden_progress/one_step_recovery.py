"""How large a batch one gradient of one neuron needs to identify the support (Proposition B.7).

The neuron is a threshold with all weights 1, whose Fourier gap is half of the majority's. Batches are fractions of
the one from which Hoeffding's bound guarantees it with probability 95%.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from elegans.analysis import summarise_cells
from elegans.boolean.fourier import majority_coefficient, sign_table
from elegans.boolean.gaps import majority_gap, strict_gap
from elegans.experiments import Experiment, InsufficientData, Line, Results, Scale, Tables, Verdict, claim
from elegans.experiments.checks import check, checks
from elegans.experiments.rules import LEVEL, attempt, by_checks, by_interval, combine, table
from elegans.plots.marks import band
from elegans.plots.style import COLOURS, GREY, figure_legend, panels, percent, title_figure
from elegans.stopping import StoppingRule
from elegans.studies.hidden_progress.models import GradientRecovery
from elegans.studies.hidden_progress.plots import trials_of
from elegans.studies.hidden_progress.theory.recovery import recover_support, recovery_sample
from elegans.sweeps import Sweep, grid
from elegans.tasks import Sample, SparseParity
from elegans.training import Trial

DELTA = 0.05
"""The probability of failure that the bound allows."""
PROVED = 1 - DELTA
"""The success rate that it proves."""
SHARES = (64, 32, 16, 8, 4)
"""Batches are the bound divided by these numbers."""
MORE = (2, 1)
"""The divisors used where batches are small."""
PARITIES = ((15, 2), (31, 2), (63, 2), (15, 4), (31, 4))
SIZES, UNITS, TRIALS = (15, 31, 63, 127), (3, 4, 6, 8, 11, 16, 23), 400
"""For estimates of the gradient: the n, the batches in units of 1/gamma^2, and the trials of each."""
RESAMPLES = 1000
ORDER = 0.5
"""The power of n that a logarithm of n must not reach (ours); ln n has 0.27 over the sizes."""
IDENTIFIED = "progress/prop-b7"


def batch_bound(n: int, k: int) -> int:
    """Return the batch size that proves success: ceil((8 / gamma^2) ln(2n / delta)), gamma of a threshold."""
    return recovery_sample(n, majority_gap(n, k) / 2, DELTA)


def batches(parities: Sequence[tuple[int, int]], trials: int) -> Sweep:
    """Return every batch of every parity (n, k), n odd and k even, small batches first."""
    learner = GradientRecovery(stopping=StoppingRule(error=0, examples=128, every=1))
    sweep = Sweep(())
    for n, k in parities:
        sizes = [batch_bound(n, k) // share for share in (*SHARES, *(MORE if k == 2 else ()))]
        first = Trial(task=SparseParity(n=n, k=k), regime=Sample(sizes[0]), model=learner)
        sweep += grid(first, {"regime.size": sizes}, seeds=trials)
    return sweep


def analyse(results: Results) -> Tables:
    """Return ``table``, one row per cell, ``checks``, exact gradients with perturbations, and ``estimates``.

    ``table`` has the success rate, and ``share``, the batch in units of the ``bound``.
    """
    cells = summarise_cells(results.trials)
    cells["bound"] = [batch_bound(int(n), int(k)) for n, k in zip(cells["task.n"], cells["task.k"], strict=True)]
    return {
        "table": cells.assign(share=cells["regime.size"] / cells["bound"]),
        **checks(_perturbed(results.first_seed)),
        "estimates": _estimates(TRIALS if results.scale == "paper" else 20, results.first_seed),
    }


def _perturbed(first_seed: int, neurons: int = 10_000, n: int = 9) -> list[dict[str, Any]]:
    """Return whether errors below half the gap ever change the largest entries, and whether larger ones can.

    Gradients are exact, of random threshold neurons that have a gap.
    """
    generator = np.random.default_rng([7, first_seed])
    x = sign_table(n).astype(float)
    wrong, needed = [], []
    for _ in range(neurons):
        k = int(generator.integers(2, 5))
        passed = x @ generator.normal(size=n) + generator.normal() > 0
        exact = -(x[:, :k].prod(axis=1) * passed) @ x / len(x)
        half = float(strict_gap(exact, range(k))) / 2
        if half <= 0:
            continue
        errors = 0.999 * half * generator.choice([-1, 1], n)
        wrong.append((recover_support(exact + errors, k) != np.arange(k)).any())
        # against the smallest relevant entry, and for the largest other one
        worst = 1.001 * half * np.where(exact < 0, -1, 1) * np.where(np.arange(n) < k, -1, 1)
        needed.append((recover_support(exact + worst, k) == np.arange(k)).all())
    return [
        check(IDENTIFIED, "errors below half the gap that change the order", wrong, 0),
        check(IDENTIFIED, "errors just above it, chosen against the order, that do not change it", needed, 0),
    ]


def _estimates(trials: int, first_seed: int) -> pd.DataFrame:
    """Return how many batches estimate a neuron's gradient within half the gap, by ``n`` and the batch ``size``.

    All weights are 1, and k = 2. Sizes are ``UNITS`` over the square of the ``gap``.
    """
    generator = np.random.default_rng([8, first_seed])
    rows = []
    for n in SIZES:
        gap = float(majority_gap(n, 2)) / 2
        exact = np.where(np.arange(n) < 2, float(majority_coefficient(n, 1)), float(majority_coefficient(n, 3))) / 2
        for unit in UNITS:
            size = round(unit / gap**2)
            errors = [np.abs(_gradient(generator, n, size) - exact).max() for _ in range(trials)]
            rows.append((n, size, gap, trials, int((np.array(errors) < gap / 2).sum())))
    return pd.DataFrame(rows, columns=["n", "size", "gap", "trials", "within"])


def _gradient(generator: np.random.Generator, n: int, size: int) -> np.ndarray:
    """Return the mean of y x over a batch where the neuron is active: its gradient up to sign."""
    bits = np.unpackbits(np.frombuffer(generator.bytes(-(-n * size // 8)), np.uint8), count=n * size)
    x = bits.reshape(size, n)
    x = x[2 * x.sum(axis=1, dtype=np.int32) > n].astype(np.float32) * 2 - 1
    return np.asarray((x[:, 0] * x[:, 1]) @ x / size, float)


def plot(tables: Tables) -> Figure:
    """Draw the success rate against the batch in units of the bound, a curve per parity, with Wilson 95% bands.

    The title states the share of the bound from which on at least 95% of the trials of every parity succeed.
    """
    table = tables["table"]
    figure, ((ax,),) = panels(1, 1, height=2.9, width=5.0)
    for colour, ((n, k), rows) in zip(COLOURS, table.groupby(["task.n", "task.k"], sort=False), strict=False):
        label = f"({n}, {k}): bound of {rows['bound'].iloc[0]:,.0f} examples"
        band(
            ax, rows["share"], rows["rate"], rows["low"], rows["high"], colour, marker="o", markersize=2.5, label=label
        )
    ax.axvline(1, color=GREY, linewidth=0.8, linestyle="--", label="proved: 95% from here on")
    ax.set_xscale("log", base=2)
    ticks = 2.0 ** np.arange(-6, 1)
    ax.set_xticks(ticks, [_fraction(tick) for tick in ticks])
    ax.set(xlim=(None, 1.15), ylim=(-0.03, 1.03))
    percent(ax)
    ax.set(xlabel="examples / bound", ylabel="trials that identify the support")
    figure_legend(figure, ax, columns=2)
    task = "(n, k) parities, the k largest entries of one neuron's gradient"
    title_figure(figure, _suffices(table), f"{task}; {trials_of(table)} per point; bands: Wilson 95%")
    return figure


def _suffices(table: pd.DataFrame) -> str:
    """Return from which share of the bound on 95% of the trials of every parity succeed, in words."""
    shares = 2.0 ** np.round(np.log2(table["share"].to_numpy(float)))
    enough = [share for share in np.unique(shares) if (table["rate"].to_numpy(float)[shares >= share] >= PROVED).all()]
    if not enough:
        return "The success rate grows with the examples"
    return f"At {_fraction(enough[0])} of the proved bound, at least 95% of the trials identify the support"


def _fraction(share: float) -> str:
    return "1" if share == 1 else f"1/{1 / share:.0f}"


def findings(tables: Tables) -> dict[str, Any]:
    """Return, for each parity, the bound, and how many trials each batch solved, with Wilson's 95% intervals."""
    found: dict[str, Any] = {"delta": DELTA}
    for _, rows in tables["table"].groupby(["task.n", "task.k"], sort=False):
        n, k = int(rows["task.n"].iloc[0]), int(rows["task.k"].iloc[0])
        found[f"({n}, {k})"] = {
            "gap": float(majority_gap(n, k) / 2),
            "bound": int(rows["bound"].iloc[0]),
            "batches": [
                {
                    "size": int(row["regime.size"]),
                    "share": round(float(row["share"]), 4),
                    "solved": int(row["solved"]),
                    "trials": int(row["trials"]),
                    "interval": [round(float(row["low"]), 4), round(float(row["high"]), 4)],
                }
                for row in rows.to_dict("records")
            ],
        }
    return found


@claim(
    id="progress/prop-b7",
    statement="If a neuron's derivative has a gap gamma at S, any estimate of its gradient within gamma/2 has its k "
    "largest entries on S, and O(log n / gamma^2) examples suffice for such an estimate.",
    source="Proposition B.7; section 5.4.1",
    setting="correlation loss; not stated: the constant",
    rule="Of the exact gradients of 10^4 random threshold neurons at n = 9 and k = 2 to 4, of those that have a gap, "
    "none is misread with errors just below half the gap, and all are with chosen errors just above it. Over n = 15, "
    "31, 63, 127 at k = 2, for a threshold with all weights 1, the batch at which half of 400 trials estimate the "
    "gradient within gamma/2, in units of 1/gamma^2, grows by less than a power 1/2 of n (our choice): the slope of "
    "its logarithm in log n (resampled counts at 2%).",
    revised="The rule required the batches, in units of ln(n)/gamma^2, to agree within a factor of 2, by Wilson's 95% "
    "bands. This demands a constant at small sizes from a statement about orders. Then the slope over sizes of k = 2 "
    "and 4 decided, in which gamma^2 hides the dependence on n; it counted supports that were found, whereas the "
    "source speaks of estimates within gamma/2; and the vectors that were perturbed were no gradients. The rule was "
    "changed after these tables had been seen and judges others. The claim held before and holds now.",
)
def identified(tables: Tables) -> Verdict:
    errors = attempt(by_checks, tables, claim=IDENTIFIED)
    return combine({"errors within half the gap": errors, "order of the sample": attempt(_sample_order, tables)})


def _sample_order(tables: Tables) -> Verdict:
    """Decide whether the batch of half of the estimates grows more slowly than the root of n, in units of 1/gamma^2."""
    needs = f"{TRIALS} estimates per batch at n = {', '.join(map(str, SIZES))}"
    known, drawn, generator = [], [], np.random.default_rng(0)
    for n in SIZES:
        rows = table(tables, "estimates", needs, n=n).sort_values("size")
        trials, within = rows["trials"].to_numpy(int), rows["within"].to_numpy(int)
        if trials.min() < TRIALS:
            raise InsufficientData(needs)
        units = np.log(rows["size"].to_numpy(float) * rows["gap"].to_numpy(float) ** 2)
        known.append(_half(within / trials, units))
        resampled = generator.binomial(trials, within / trials, (RESAMPLES, len(rows))) / trials
        drawn.append([_half(rates, units) for rates in resampled])
    slope, slopes = (float(np.polyfit(np.log(SIZES), known, 1)[0]), np.polyfit(np.log(SIZES), np.array(drawn), 1)[0])
    low, high = np.quantile(slopes, [LEVEL, 1 - LEVEL])
    return by_interval("the power of n with which batches grow", slope, (low, high), below=ORDER)


def _half(rates: np.ndarray, sizes: np.ndarray) -> float:
    """Return the logarithm of the batch at which a rising success rate reaches one half, interpolated linearly."""
    rising = np.maximum.accumulate(rates)
    if rising[0] > 0.5 or rising[-1] < 0.5:
        raise InsufficientData("batches on both sides of one half")
    return float(np.interp(0.5, rising, sizes))


def lines(columns: Mapping[str, Any]) -> list[Line]:
    """Return the batch size from which on success is proved, against n."""
    k = int(columns["task.k"])
    sizes = range(2 * k + 1, 130, 2)
    bounds = np.array([batch_bound(n, k) for n in sizes], float)
    label = f"Proposition B.7: {PROVED:.0%} of the trials succeed from here on"
    return [Line(label, {"task.n": np.array(sizes, float), "regime.size": bounds})]


EXPERIMENT = Experiment(
    name="one-step-recovery",
    shows="One gradient of one neuron identifies the support with a fraction of the examples that the proof requires",
    source="Proposition B.7",
    scales={
        "smoke": Scale(lambda trials: batches([(9, 2), (15, 2)], trials), trials=20),
        "laptop": Scale(lambda trials: batches([(15, 2), (31, 2), (15, 4)], trials), trials=100),
        "paper": Scale(
            lambda trials: batches([*PARITIES], trials),
            trials=100,
            part="the source has no experiment: laboratory sizes",
        ),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    claims=[identified],
    lines={("regime.size", "task.n"): lines},
)
