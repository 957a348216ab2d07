"""What figure 1 and its text state about single networks near the frontier."""

from collections.abc import Mapping

import pandas as pd

from elegans.experiments.claims import HOLDS, IN_PART, InsufficientData, Verdict, claim
from elegans.experiments.rules import LEVEL, by_share, combine, share_limits, table

STEPS = 100_000
FITTED, CHANCE, SOLVED = 0.01, 0.4, 0.1
"""The training error of a fitted sample, a test error near chance, the test error of success."""
LEAST = 1000
"""The least grokking delay in steps."""
FEWEST = 30
"""The smallest number of successful networks from which the share that generalises perfectly is judged."""


@claim(
    id="pareto/grokking",
    statement=("Near the frontier some networks fit their training sample early and generalise much later, abruptly."),
    source="figure 1 (right), sections 1 and 4.1 (4)",
    setting="10 curves per boxed cell; silent: (n, k), cells, thresholds, steps; ours: (50, 3) and 100000 steps",
    rule=(
        "Dense networks of width 1000 on 1000 examples, a printed size. A network groks if its train error is at "
        "most 1% with a test error of at least 40%, and its test error at most 10% at least 1000 steps, and twice "
        "as many steps, later; abruptly if the test error falls from 40% to 10% in less than half of that time. "
        "Each part holds if the share of networks exceeds one half (exact, 2.5% each). Thresholds are ours."
    ),
)
def grokking(tables: Mapping[str, pd.DataFrame]) -> Verdict:
    """Decide whether most networks of the printed cell near the frontier grok, and whether abruptly."""
    needs = "10 dense networks of width 1000 on 1000 examples of (50, 3), 100000 steps (the scale paper)"
    where = {"task__n": 50, "task__k": 3, "model__init": "dense", "model__width": 1000, "regime__size": 1000}
    rows = table(tables, "table", needs, **where)
    if rows["step"].max() < STEPS or rows["seed"].nunique() < 10:
        raise InsufficientData(needs)
    runs = [_grokked(run) for _, run in rows.groupby("seed")]
    late, abrupt = (sum(each) for each in zip(*runs, strict=True))
    return combine(
        {
            "late": by_share("networks that fit long before they generalise", late, len(runs), level=LEVEL / 2),
            "abruptly": by_share("networks that then generalise abruptly", abrupt, len(runs), level=LEVEL / 2),
        }
    )


def _grokked(run: pd.DataFrame) -> tuple[bool, bool]:
    """Return whether a run generalises late, and whether the test error then falls in less than half of the delay."""
    fitted = run.loc[(run["train_error"] <= FITTED) & (run["test_error"] >= CHANCE), "step"]
    solved = run.loc[run["test_error"] <= SOLVED, "step"]
    if fitted.empty or solved.empty:
        return False, False
    first, end = int(fitted.min()), int(solved.min())
    late = end - first >= max(LEAST, 2 * first)
    above = int(run.loc[(run["test_error"] >= CHANCE) & (run["step"] < end), "step"].max())
    return late, late and end - above < (end - first) / 2


@claim(
    id="pareto/perfect-generalisation",
    statement="Networks trained on far fewer than n^k examples generalise perfectly, not just to an error of 10%.",
    source="section 4.1 (1), appendix C.1 (1)",
    setting="success is an error of at most 10%; silent: what perfect is, and when it is measured",
    rule=(
        "(50, 3), width 1000, 1000 examples (dense) and 600 (sparse), 50 networks each, trained on to 100000 "
        "steps: of those that succeed, the share without an error on 10000 test examples at the end. A cell holds "
        "if the lower limit (exact, 5%) exceeds 90%, fails if the upper one lies below 50%, else holds in part."
    ),
)
def perfect(tables: Mapping[str, pd.DataFrame]) -> Verdict:
    """Decide whether networks that succeed make no error on 10000 test examples at the end."""
    parts = {}
    for init, size in (("dense", 1000), ("sparse:2", 600)):
        needs = f"{FEWEST} networks ({init}, width 1000, {size} examples of (50, 3)) that succeed (the scale paper)"
        where = {"task__n": 50, "task__k": 3, "model__init": init, "model__width": 1000, "regime__size": size}
        rows = table(tables, "final", needs, step=STEPS, **where)
        solved = rows[rows["test_at"].notna()]
        if len(solved) < FEWEST:
            raise InsufficientData(needs)
        parts[f"{init}, {size} examples"] = _perfect(solved["test_error"])
    return combine(parts)


def _perfect(errors: pd.Series) -> Verdict:
    without = int((errors == 0).sum())
    what = f"networks without a test error at the end (median error {errors.median():.2g}, largest {errors.max():.2g})"
    verdict = by_share(what, without, len(errors), above=0.9)
    if verdict.verdict == HOLDS or share_limits(without, len(errors))[1] < 0.5:
        return verdict
    needs = "most or many networks, not nearly all"
    return Verdict(IN_PART, verdict.because, verdict.numbers, verdict.error_rate, needs)


CLAIMS = (
    grokking,
    perfect,
)
