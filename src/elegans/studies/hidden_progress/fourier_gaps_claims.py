"""The claims on Fourier gaps of random neurons and of one that learns."""

from collections.abc import Sequence
from functools import partial

from elegans.experiments import Claim, Tables, Verdict, claim
from elegans.experiments.rules import at_least, attempt, by_share, combine, table
from elegans.studies.hidden_progress.rules import by_middle

DRAWS = 1000
RUNS = 59
COMPARABLE = 0.5
"""The share of the majority's gap from which a gap counts as comparable (our choice)."""
OFTEN = 0.1
"""The share of neurons above which a probability counts as not negligible (our choice)."""


def comparable(tables: Tables, *, function: str, degrees: Sequence[int]) -> Verdict:
    """Decide how often random neurons have at least half of the majority's gap, cell by cell."""
    cells = [(k, law) for k in degrees for law in ("dense", "gaussian")]
    return combine({f"k = {k}, {law}": attempt(_cell, tables, function, k, law) for k, law in cells})


def _cell(tables: Tables, function: str, k: int, law: str) -> Verdict:
    needs = f"{DRAWS} random neurons per cell at n = 15"
    rows = table(tables, "random", needs, function=function, task__n=15, task__k=k)
    rows = rows[rows["weights"].str.startswith(law)]
    ratio = at_least(DRAWS, rows["relaxed"] / rows["majority"], needs)
    large = int((ratio >= COMPARABLE).sum())
    share = by_share("neurons with half of the majority's gap", large, len(ratio), above=OFTEN)
    others = {
        "median of the ratio": ratio.median(),
        "a quarter of it": (ratio >= 0.25).mean(),
        "all of it": (ratio >= 1).mean(),
        "strict gap": (rows["strict"] > 0).mean(),
    }
    return share.but(**others)


@claim(
    id="progress/gap-amplifies",
    statement="Along SGD a sinusoidal neuron's gap is positive at the start, somewhat below the majority's, and "
    "grows during training.",
    source="figure B.8 (right); section 5.5; B.3.1 to B.3.3",
    setting="10 runs; silent: n, k, learning rate, batch size",
    rule="Solved runs at (51, 4), at least 59: the lower 95% limit of the share with a positive gap at first is "
    "above 0.9, the median ratio to the majority's lies in (0.1, 1), and the share that grows until half of the "
    "time to solve is above 0.5 (thresholds ours).",
)
def amplifies(tables: Tables) -> Verdict:
    """Decide whether the gap of a sinusoidal neuron is positive at first, below the majority's, and grows."""
    rows = table(tables, "training", f"{RUNS} solved runs at (51, 4)", task__n=51, task__k=4)
    runs = rows[rows["solved_at"].notna()].groupby("seed")
    at_least(RUNS, runs, f"{RUNS} solved runs at (51, 4)")
    first = runs["relaxed"].first()
    half = rows[rows["step"] <= rows["solved_at"] / 2].groupby("seed")["relaxed"].last()
    ratio = first / runs["majority"].first()
    return combine(
        {
            "positive at the start": by_share("positive gaps", int((first > 0).sum()), len(first), above=0.9),
            "below the majority's": by_middle("the gap over the majority's", ratio, above=0.1, below=1.0),
            "growing": by_share("gaps that grow by half the time", int((half > first).sum()), len(first), above=0.5),
        }
    )


RULE = (
    "n = 15, exact: the lower 95% limit of the share of neurons with a relaxed gap of at least half of the majority's "
    "is above 0.1 (both ours) in every cell, from 1000 draws a cell or more; a quarter, all of it and strict gaps are "
    "reported."
)
CLAIMS = (
    Claim(
        id="progress/gap-random-thresholds",
        statement="Linear thresholds with uniform or Gaussian weights have relaxed Fourier gaps comparable to the "
        "majority's, with a probability that is not negligible.",
        source="B.3.1; figure B.7",
        setting="n = 15; silent: k, draws, what is comparable and not negligible",
        rule=f"{RULE} k = 2, 4, 6; weights uniform and Gaussian.",
        decide=partial(comparable, function="threshold", degrees=(2, 4, 6)),
    ),
    Claim(
        id="progress/gap-sinusoid",
        statement="Population gradients of sinusoidal neurons at random weights have gaps comparable to the "
        "majority's.",
        source="figure B.8 (left)",
        setting="sin(w . x / sqrt(n)); silent: the distribution of w, n, k",
        rule=f"{RULE} k = 2, 4; weights uniform and Gaussian.",
        decide=partial(comparable, function="sine", degrees=(2, 4)),
    ),
    amplifies,
)
