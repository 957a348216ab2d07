"""The claims on training curves of every kind of network (figures 5.1, left, and B.2)."""

import math
from typing import Any

import numpy as np
import pandas as pd

from elegans.experiments import InsufficientData, Tables, Verdict, claim
from elegans.experiments.claims import FAILS, HOLDS
from elegans.experiments.rules import LEVEL, at_least, attempt, by_rates, by_share, combine, decided, higher, table
from elegans.models import Sinusoid
from elegans.studies.hidden_progress.rules import CONTINUOUS, PLATEAU, by_bounds, by_middle

SHOWN = {
    ("i", 32, 0.5): "",
    ("i", 1024, 0.05): "",
    ("ii", 1, 0.05): "",
    ("iv", 32, 0.05): "",
    ("vii", 32, 0.2): "",
    ("x", 32, 0.05): "sin 2z",
    ("*iii", 32, 5e-4): "",
    ("xv", 32, 0.07): "",
}
"""Configuration, batch size and learning rate of the panels of figure 5.1, and a part of the panel's name."""
MINIMAL = {"*i": 0.1, "*ii": 0.01, "vii": 0.1, "viii": 0.1, "xi": 0.1, "xii": 0.1}
OTHER_RATES, OTHER_SCALE = "minimal networks at smaller rates", "minimal networks from Glorot's scale"
"""Names of the settings that are not the figure's, in the column of figures."""
SHARES = (0.3, 0.1, 0.01)
"""The smaller learning rates of minimal networks, in units of the printed one."""
FAIR = (0.2, 0.1)
"""Shares of trials solved above which that is a fair share, as in the thesis' robust space, and below which not."""
LARGE = (("iii", 1, 0.1), ("iii", 1024, 0.1), ("vi", 1, 0.001), ("vi", 1024, 0.01))
MODERATE = (16, 64, 256)
"""The batch sizes of PolyNets between the ends of the range."""
SETTINGS = 6
TRANSFORMERS = (("*iii", 32, 5e-4), ("*iii", 32, 3e-4), ("*iii", 1024, 3e-4))
TRIALS, STEPS = 25, 100_000

SETTING = "(50, 3), batch sizes and learning rates of the figure; not stated: numbers of runs"


@claim(
    id="progress/plateau-then-cliff",
    statement="For almost all networks the error stays flat near chance for a long time and then falls quickly.",
    source="section 5.3.1; figures 5.1 (left), 5.3 and B.2",
    setting=f"the eight panels of figure 5.1: {SETTING}, what makes a plateau, smoothing",
    rule="The plateau's share is the time until the error is below 45% for good over the time until it is below 5% "
    "for good, with errors averaged over at least 1024 examples. A panel has a plateau if the interval of the median "
    "over 25 trials or more (2% over the panels) is above 1/2, and none if it is below 1/4 (our choice; a straight "
    "line has 0.11). Holds if seven of eight panels have one, or six of seven without the transformer's, and no panel "
    "is without; fails if fewer than five have one.",
    revised="The error rate was 5%; now the total is 2%. The verdict is the same.",
)
def plateau_then_cliff(tables: Tables) -> Verdict:
    parts, missing = {}, []
    for (name, batch, rate), named in SHOWN.items():
        try:
            rows = _trials(tables, name, batch, rate, named=named)
        except InsufficientData:
            missing.append(name)
            continue
        reached = rows.dropna(subset="ends")
        needs = f"panels in which half of the trials reach an error of 5%: ({name}) has {len(reached)}"
        at_least(math.ceil(TRIALS / 2), reached, needs)
        shares = reached["leaves"] / reached["ends"]
        parts[f"({name}), B = {batch}"] = by_middle(
            "the share of the plateau", shares, above=PLATEAU, level=LEVEL / len(SHOWN)
        )
    at_least(7, parts, "25 trials in each panel of figure 5.1, but for the transformer's")
    count = sum(part.verdict == HOLDS for part in parts.values())
    fewest = sum(part.verdict != FAILS for part in parts.values())
    none = [name for name, part in parts.items() if part.numbers["interval"][1] < CONTINUOUS]
    listed = ", ".join(f"{name}: {part.numbers['estimate']:.2f}" for name, part in parts.items())
    because = f"{count} of {len(parts)} panels have a plateau by the interval of its median share ({listed})"
    needed = 7 if "*iii" not in missing else 6
    numbers = {name: part.numbers for name, part in parts.items()} | {"without": missing}
    needs = f"at least {needed} panels above {PLATEAU:g}; the transformer's is {'missing' if missing else 'there'}"
    return decided(count >= needed and not none, fewest < 5, because, numbers, LEVEL, needs)


@claim(
    id="progress/minimal-networks-sometimes-converge",
    statement="Networks just wide enough to represent the parity solve it in a fair share of the runs.",
    source="figure B.2, third row; section 5.1",
    setting=f"(*i), (*ii), (vii), (viii), (xi), (xii), B = 1: {SETTING}; also at smaller rates than the printed 0.1 "
    "(0.01 for (*ii)), and from Glorot's initial scale",
    rule="For each setting and learning rate (the printed one; 0.3, 0.1 and 0.01 of it; and 0.1 of it from Glorot's "
    "initial scale), of 25 trials or more: holds if over 20% are solved, fails if under 10% are (the first is the "
    "source's limit for its robust space, the second ours). Exact one-sided limits, 2% over the 30 cells. Trials that "
    "diverge count as unsolved. The claim holds in part if it holds at some rates and fails at others. That the other "
    "runs get stuck, as the source adds, is not judged: 10^5 steps do not tell a stuck network from a slow one.",
    revised="One solved trial of 30, which fresh seeds can produce by chance, made a setting undecided that would "
    "otherwise have failed. The rule also did not report divergence, and its error rate was 5%, not 2%. Only the "
    "printed learning rates were run, and the claim failed before and after that change. Smaller rates and another "
    "initial scale are now each judged on new seeds, since a trial run showed that networks (vii), (viii), (xi) and "
    "(xii) solve the task at a tenth of the printed rate. A setting held if over 5% but not all of its trials were "
    "solved; it now holds at over 20%. It failed under 25%, and now fails under 10%. The verdict was fails; the claim "
    "now holds in part: at a tenth of the printed rate for all but the ReLU network. The statement said that the other "
    "runs get stuck, which no part of the rule reads.",
)
def minimal(tables: Tables) -> Verdict:
    cells, lost = {}, []
    for name, printed in MINIMAL.items():
        rates = {share: round(printed * share, 6) for share in SHARES}
        own = {(f"({name})", printed): "figure B.2"} | {(f"({name})", rate): OTHER_RATES for rate in rates.values()}
        own[f"({name}), Glorot's scale", round(printed / 10, 6)] = OTHER_SCALE
        for (setting, rate), figure in own.items():
            part = attempt(_solved, tables, name, rate, figure)
            cells[setting, rate] = {"": part}
            lost += [f"{setting} at {rate:g}"] if part.numbers.get("diverged", 0) == part.numbers.get("trials") else []
    return by_rates(cells).but(because=f"all trials diverge in {', '.join(lost)}" if lost else "")


def _solved(tables: Tables, name: str, rate: float, figure: str) -> Verdict:
    rows = _trials(tables, name, 1, rate, figure=figure)
    solved, fair, level = int(rows["solved_at"].notna().sum()), FAIR, LEVEL / (len(MINIMAL) * (len(SHARES) + 2))
    diverged = int((rows["solved_at"].isna() & (rows["step"] < STEPS)).sum())
    share = by_bounds("trials solved", solved, len(rows), holds_above=fair[0], fails_below=fair[1], level=level)
    return share.but(because=f"{diverged} diverged", diverged=diverged)


@claim(
    id="progress/extreme-batches-unstable",
    statement="At both ends of the range of batch sizes, times scatter more and have more outliers.",
    source="figure B.2, second row, and its caption",
    setting=f"PolyNet at six batch sizes: {SETTING}",
    rule="Scatter is the distance of log t from the median of its batch size, infinite if unsolved; outliers take "
    "over twice the median time or are unsolved. B = 1 and B = 1024 are each compared with B = 16 to 256 pooled, 1000 "
    "trials of each, by Mann and Whitney's test of the scatter and Fisher's test of the outliers, at 0.5% each. A "
    "part fails if scatter or outliers are significantly smaller.",
    revised="An end failed if its share of outliers was not larger, however likely that is by chance; the claim was "
    "undecided. The rule judged only outliers, with 200 trials, although the source says that runs scatter more. It "
    "now also judges the scatter, with 1800 trials, on other seeds. The claim holds in part.",
)
def extreme_batches(tables: Tables) -> Verdict:
    from scipy.stats import mannwhitneyu

    scatter, counts = {}, {}
    for batch, rate in ((1, 0.005), (4, 0.01), (16, 0.1), (64, 0.1), (256, 0.1), (1024, 0.1)):
        rows = _trials(tables, "xv", batch, rate, least=1000)
        times = rows["solved_at"].astype(float).fillna(np.inf).to_numpy()
        if not np.isfinite(np.median(times)):
            raise InsufficientData(f"half of the trials of PolyNet solved at B = {batch}")
        scatter[batch] = np.abs(np.log(times / np.median(times)))
        counts[batch] = int((times > 2 * np.median(times)).sum()), len(times)
    middle = sum(counts[batch][0] for batch in MODERATE), sum(counts[batch][1] for batch in MODERATE)
    usual = np.concatenate([scatter[batch] for batch in MODERATE])
    factors = {batch: float(np.exp(np.median(own))) for batch, own in scatter.items()}
    parts, level = {}, LEVEL / 4
    for batch in (1, 1024):
        more, fewer = (
            float(mannwhitneyu(scatter[batch], usual, alternative=side).pvalue) for side in ("greater", "less")
        )
        because = f"half of the trials lie within a factor of {factors[batch]:.3g}, in the middle "
        because += f"{np.exp(np.median(usual)):.3g} (p = {more:.2g})"
        numbers: dict[str, Any] = {"factor_of_half": factors, "p": more, "p_of_less": fewer}
        parts[f"B = {batch}, scatter"] = decided(more <= level, fewer <= level, because, numbers, level, "more trials")
        more, fewer = higher(counts[batch], middle), higher(middle, counts[batch])
        because = f"far out are {counts[batch][0]} of {counts[batch][1]}, of the middle {middle[0]} of {middle[1]}"
        numbers = {"far_out": counts, "p": more, "p_of_fewer": fewer}
        because += f" (p = {more:.2g})"
        parts[f"B = {batch}, outliers"] = decided(more <= level, fewer <= level, because, numbers, level, "more trials")
    return combine(parts)


@claim(
    id="progress/large-models-robust-to-batch",
    statement="Networks of width 1000 and the large transformer train over a wide range of batch sizes.",
    source="figure B.2, fourth row, and its caption",
    setting=f"(iii), (vi) and (*iii) at two batch sizes each: {SETTING}",
    rule="Holds if over 80% of the trials are solved, or have a minibatch error below 1% for good, within 10^5 steps; "
    "fails if under half are (our choice). Exact limits, 2% over the six settings.",
    revised="Trials that end without a mistake on 8192 examples counted as not trained if the mean error of their "
    "last minibatches was still above 1%: at B = 1024 all 30 trials of (iii) were solved, and 22 counted as failures. "
    "Solved trials now count. The claim held in part. It is now undecided, without the transformer and with 23 of 30 "
    "at (iii), B = 1.",
)
def large_models(tables: Tables) -> Verdict:
    panels = (*LARGE, *TRANSFORMERS[1:])
    return combine({f"({panel[0]}), B = {panel[1]}": attempt(_learned, tables, *panel) for panel in panels})


def _learned(tables: Tables, name: str, batch: int, rate: float) -> Verdict:
    rows = _trials(tables, name, batch, rate, least=14)
    solved = rows["solved_at"].notna()
    learned = int((rows["learns"].notna() | solved).sum())
    what = f"trials solved ({int(solved.sum())}) or with an error below 1% for good"
    return by_bounds(what, learned, len(rows), holds_above=0.8, fails_below=0.5, level=LEVEL / SETTINGS)


@claim(
    id="progress/transformer-learns",
    statement="A transformer of one block trained with Adam learns (50, 3) and shows the same plateau.",
    source="figures 5.1 (left), B.2 (fourth row) and B.6 (bottom)",
    setting=f"width 1024, 128 heads of size 8: {SETTING}, the width of the MLP, the scale of the embeddings",
    rule="At each of the three printed settings, over 80% of 14 trials or more are solved, and the median share of "
    "the plateau is above 1/2 (our choice). Limits at 2% over the six.",
)
def transformer(tables: Tables) -> Verdict:
    parts, level = {}, LEVEL / (2 * len(TRANSFORMERS))
    for name, batch, rate in TRANSFORMERS:
        rows = _trials(tables, name, batch, rate, least=14)
        solved = int(rows["solved_at"].notna().sum())
        parts[f"B = {batch}, rate {rate:g}: solved"] = by_share("solved", solved, len(rows), above=0.8, level=level)
        shares = rows["leaves"] / rows["ends"]
        parts[f"B = {batch}, rate {rate:g}: plateau"] = by_middle("the plateau", shares, above=PLATEAU, level=level)
    return combine(parts)


@claim(
    id="progress/doubled-sinusoid-robust",
    statement="With the sinusoid's argument doubled, (50, 3) converges more reliably; doubling is the same as "
    "rescaling initial weights and learning rate.",
    source="appendix B.4.1",
    setting="(x), (50, 3), B = 32, rate 0.05; not stated: how often either converges, which shift goes with the "
    "doubling",
    rule="(a) sigma(2z) at rate eta agrees to rounding with sigma(z) from twice the weights at rate 4 eta, over 100 "
    "steps of a neuron. (b) The solved share of 100 trials exceeds the interpolating sinusoid's, by Fisher's "
    "test at 1%, for two readings: sin 2z, and the interpolating sinusoid doubled.",
    revised="The total error rate is 2%, not 5%. At that rate sin 2z, which failed, is undecided (107 of 120 solved; "
    "116 without doubling). The doubled interpolating sinusoid still fails, and the verdict is the same.",
)
def doubled(tables: Tables) -> Verdict:
    plain = _trials(tables, "x", 32, 0.05, named="interpolating", least=100)
    base = int(plain["solved_at"].notna().sum()), len(plain)
    parts, level = {"a rescaling": _rescaled()}, LEVEL / 2
    for reading in ("sin 2z", "doubled"):
        rows = _trials(tables, "x", 32, 0.05, named=reading, least=100)
        solved = int(rows["solved_at"].notna().sum()), len(rows)
        more, fewer = higher(solved, base), higher(base, solved)
        because = f"solved {solved[0]} of {solved[1]}, without doubling {base[0]} of {base[1]} (p = {more:.2g})"
        numbers = {"solved": solved, "without": base, "p": more, "p_of_fewer": fewer}
        parts[reading] = decided(more <= level, fewer <= level, because, numbers, level, "more trials")
    return combine(parts)


def _rescaled() -> Verdict:
    """Compare sigma(2z) at rate eta with sigma(z) from twice the weights at rate 4 eta, over 100 steps of a neuron."""
    generator = np.random.default_rng(0)
    plain, twice = Sinusoid(3), Sinusoid(3, scale=2.0)
    small = generator.uniform(-0.2, 0.2, 21)
    large, worst = 2 * small, 0.0
    for _ in range(100):
        x = np.append(generator.choice([-1.0, 1.0], 20), 1)
        y = x[:3].prod()
        before = y * twice.value(np.array(small @ x)) < 1, y * plain.value(np.array(large @ x)) < 1
        small = small + 0.05 * before[0] * y * twice.derivative(np.array(small @ x)) * x
        large = large + 0.2 * before[1] * y * plain.derivative(np.array(large @ x)) * x
        worst = max(worst, float(np.abs(2 * small - large).max()))
    because = f"weights differ by at most {worst:.1e} over 100 steps"
    return decided(worst < 1e-9, worst >= 1e-9, because, {"worst": worst}, 0.0, "")


def _trials(
    tables: Tables, name: str, batch: int, rate: float, *, named: str = "", least: int = TRIALS, figure: str = ""
) -> pd.DataFrame:
    """Return one row per trial of a panel at (50, 3), of any figure by default."""
    needs = f"{least} trials of ({name}) at (50, 3), B = {batch}, rate {rate:g}"
    where = {"task__n": 50, "task__k": 3, "training__batch_size": batch, "training__learning_rate": rate}
    rows = table(tables, "table", needs, configuration=name, **where, **({"figure": figure} if figure else {}))
    rows = rows[rows["panel"].str.contains(named, regex=False)].groupby(["panel", "seed"]).last()
    return at_least(least, rows, needs)


CLAIMS = (plateau_then_cliff, minimal, extreme_batches, large_models, transformer, doubled)
