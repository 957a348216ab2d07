"""The claims on networks with and without a plateau (appendix B.3.8, figure B.13)."""

from itertools import combinations

import numpy as np
import pandas as pd

from elegans.experiments import InsufficientData, Tables, Verdict, claim
from elegans.experiments.claims import FAILS, HOLDS, IN_PART, UNDECIDED
from elegans.experiments.rules import combine, decided, holm, table
from elegans.studies.hidden_progress.rules import CONTINUOUS, PLATEAU, by_middle

WIDTHS, BATCHES, LARGEST = (10, 100, 1000), (32, 128, 1024), 4096
RATE, RELU_RATE = 0.03, 0.1
TRIALS = 20
NEEDS = "25 trials per cell at (50, 3): the part scale"


@claim(
    id="progress/wide-polynomial-no-plateau",
    statement="z^k networks of width 100 and 1000 have no plateau: the error falls from the start, about linearly.",
    source="section 5.3.1; appendix B.3.8; figures B.2 (fourth row) and B.13",
    setting="(v) and (vi), (50, 3), large batches; silent: rates and widths, what absent means. Ours: rate 0.03",
    rule="The plateau's share is the first time with a held-out error of 45% over the first with 5%. At B = 4096 "
    "the median over 20 trials or more is below 1/4 (97.5% order-statistic limit) to hold, above 1/2 to fail, in "
    "part between (ours; a straight line has 0.11). Other rates and batches are reported.",
)
def no_plateau(tables: Tables) -> Verdict:
    """Decide whether wide z^k networks lack a plateau at the largest batch size."""
    others = {}
    elsewhere = [(width, 1024, rate) for rate in (RATE, 0.01) for width in (100, 1000)]
    for width, batch, rate in (*elsewhere, (1000, 1, 0.001)):
        cell = _cell(tables, "z^k", width, batch, rate)
        others[f"width {width}, B = {batch}, rate {rate:g}"] = float(cell["plateau"].median())
    listed = ", ".join(f"{name}: {share:.2f}" for name, share in others.items())
    parts = {}
    for name, width in (("(v)", 100), ("(vi)", 1000)):
        cell = _cell(tables, "z^k", width, LARGEST, RATE)
        share = by_middle("the share of the plateau", cell["plateau"], below=CONTINUOUS, level=0.025)
        low, high = share.numbers["interval"]
        halfway = float(cell["halfway"].median())
        share = share.but(because=f"error halfway {halfway:.2f}", error_halfway=halfway, elsewhere=others)
        if low >= CONTINUOUS and high <= PLATEAU:
            share = share.but(IN_PART, needs=f"a share below {PLATEAU:g}")
        elif low <= PLATEAU and share.verdict == FAILS:
            share = share.but(UNDECIDED, needs="more trials")
        parts[name] = share
    return combine(parts).but(because=f"medians elsewhere: {listed}")


@claim(
    id="progress/descent-rate-grows-with-width-and-batch",
    statement="For z^k networks the error falls faster with larger width and larger batches.",
    source="appendix B.3.8; figure B.13",
    setting="(iv), (v), (vi), (50, 3); silent: batch sizes, rates. Ours: rate 0.03, B = 32, 128, 1024",
    rule="The drop of the error per step over the first fifth of the cell's median time to 5%: Jonckheere's test "
    "of an increase with the width at each B and with B at each width, Holm at 2.5% in each direction.",
)
def faster_descent(tables: Tables) -> Verdict:
    """Decide whether the error of z^k networks initially falls faster with larger width and with larger batches."""
    slopes = {(width, batch): _slopes(tables, width, batch) for width in WIDTHS for batch in BATCHES}
    rows = {f"widths at B = {batch}": [slopes[width, batch] for width in WIDTHS] for batch in BATCHES}
    rows |= {f"batch sizes at width {width}": [slopes[width, batch] for batch in BATCHES] for width in WIDTHS}
    more, fewer = (holm([_trend(sign, own) for own in rows.values()]) for sign in (1, -1))
    parts = {}
    for name, up, down in zip(rows, more, fewer, strict=True):
        medians = [100 * float(np.median(own)) for own in rows[name]]
        because = f"percent per step {', '.join(f'{one:.3g}' for one in medians)} (p = {up:.2g})"
        numbers = {"percent_per_step": medians, "p": up, "p_of_decrease": down}
        parts[name] = decided(up <= 0.025, down <= 0.025, because, numbers, 0.025, "more trials")
    return combine(parts, error_rate=0.05)


@claim(
    id="progress/relu-plateau-at-every-batch",
    statement="ReLU networks do not lose their plateau at any batch size.",
    source="appendix B.3.8",
    setting="(50, 3); silent: batch sizes, widths, rates. Ours: widths 10 to 1000, B = 1 to 4096, rate 0.1",
    rule="The median share of the plateau over the trials that reach an error of 5% is above 1/2 in all twelve "
    "cells (0.4% each) to hold, below in some cell to fail.",
)
def relu_plateau(tables: Tables) -> Verdict:
    """Decide whether ReLU networks have a plateau at every width and batch size."""
    parts = {
        f"width {width}, B = {batch}": by_middle(
            "the share of the plateau",
            _cell(tables, "relu", width, batch, RELU_RATE)["plateau"].dropna(),
            above=PLATEAU,
            level=0.004,
        )
        for width in WIDTHS
        for batch in (1, 32, 1024, LARGEST)
    }
    words = {name: one.verdict for name, one in parts.items()}
    missed = [name for name, word in words.items() if word == FAILS]
    middles = {name: one.numbers["estimate"] for name, one in parts.items()}
    least = min(middles, key=lambda name: middles[name])
    because = (
        f"the least median share of {len(parts)} cells is {middles[least]:.2f}, at {least}; below 1/2: {len(missed)}"
    )
    numbers = {name: one.numbers for name, one in parts.items()}
    needs = ", ".join(name for name, word in words.items() if word == UNDECIDED)
    return decided(all(word == HOLDS for word in words.values()), bool(missed), because, numbers, 0.05, needs)


def _slopes(tables: Tables, width: int, batch: int) -> np.ndarray:
    """Return by how much the error of each trial falls per step in the first fifth of the cell's median time to 5%."""
    rows = _rows(tables, "z^k", width, batch, RATE)
    until = rows.groupby("seed")["ends"].last().fillna(np.inf).median() / 5
    first = [np.interp(until, own["step"], own["error"]) for _, own in rows.groupby("seed")]
    return (0.5 - np.array(first)) / until


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
    if rows["seed"].nunique() < TRIALS:
        raise InsufficientData(NEEDS)
    return rows


def _cell(tables: Tables, network: str, width: int, batch: int, rate: float) -> pd.DataFrame:
    """Return one row per trial."""
    return _rows(tables, network, width, batch, rate).groupby("seed").last()


CLAIMS = (no_plateau, faster_descent, relu_plateau)
