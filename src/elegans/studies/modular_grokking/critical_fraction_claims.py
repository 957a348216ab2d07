"""Claims on critical fractions: symmetric operations need less data, and some operations are never learned."""

from itertools import chain

import pandas as pd

from elegans.experiments import InsufficientData, Tables, Verdict, claim
from elegans.experiments.claims import UNDECIDED
from elegans.experiments.rules import LEVEL, combine, decided, higher, holm, share_limits, table

LEAST = 8
"""The fewest transformers per operation (our choice)."""
NEEDS = f"{LEAST} transformers or more on one fraction of x+y, x-y, x*y and x/y with one modulus: the laptop scale"
AMPLE = 10
"""How many times the symmetric operation's median steps a budget must have, so that speed does not decide; ours."""
RARELY, HALF = 0.2, 0.5
"""An operation is not learned if fewer of all trials, and fewer at the largest fraction, generalise (our choice)."""
PAIRS = {"x+y and x-y": ("x+y", "x-y"), "x*y and x/y": ("x*y", "x/y")}


SETTING = "transformers, AdamW, p = 97; here: two-layer quadratic networks, p = 23, 3000 steps"


@claim(
    id="modular/symmetric-operations-need-less",
    statement="Operations that are symmetric in their operands tend to need less data than closely related ones that "
    "are not.",
    source="Power et al. (2022), section 3.2, figure 2 (right)",
    setting="transformers, AdamW, p = 97, up to 100,000 steps; here: smaller, p = 31, 50% of the pairs, 30,000 steps",
    rule="On the same fraction of the pairs, with the same budget of steps, more transformers generalise x+y than "
    "x-y, and more generalise x*y than x/y (Fisher's one-sided tests, Holm, 2%); it fails if fewer do. The budget, "
    "ours, must "
    "be at least ten times the median steps that the symmetric operation takes: otherwise slower learning alone would "
    "give this, and the pair is undecided. Two-layer networks cannot tell x-y from x+y: with y replaced by -y their "
    "training has the same distribution.",
    revised="The error rate was 5%; now it is 2%. There were 12 transformers of each operation; fresh seeds left "
    "multiplication and division undecided, so 32 of each are judged, on new seeds. The claim held, within 1000 "
    "steps, of which x+y takes 625 (median): too few to tell operations that need more data from those that are only "
    "learned more slowly. The budget must now be ample, and the claim was undecided. The rule was changed after the "
    "tables had been seen. A pilot with three transformers per operation showed that within 7000 steps nearly all "
    "operations are learned from 70% of the pairs, but not all of them from half. With 16 of each on half of the "
    "pairs and 30,000 steps, the claim holds. Three of the 16 seeds are those of the pilot; without them it holds "
    "too (12 of 13 against 2, and 13 against 6).",
)
def symmetric_need_less(tables: Tables) -> Verdict:
    rows = table(tables, "transformers", NEEDS)
    tasks = rows["task"].str.partition(" mod ")[0]
    counts = dict(zip(tasks, zip(rows["solved"].astype(int), rows["trials"].astype(int), strict=True), strict=True))
    alike = rows["order"].nunique() == rows["fraction"].nunique() == 1
    if not alike or rows["trials"].min() < LEAST or not counts.keys() >= set(chain(*PAIRS.values())):
        raise InsufficientData(NEEDS)
    more = holm([higher(counts[symmetric], counts[other]) for symmetric, other in PAIRS.values()])
    fewer = holm([higher(counts[other], counts[symmetric]) for symmetric, other in PAIRS.values()])
    parts = {}
    for (name, pair), p, against in zip(PAIRS.items(), more, fewer, strict=True):
        because = ", ".join(f"{each} in {counts[each][0]} of {counts[each][1]} transformers" for each in pair)
        numbers = {"p": p, **{each: list(counts[each]) for each in pair}}
        verdict = decided(p <= LEVEL, against <= LEVEL, because, numbers, LEVEL, "more transformers")
        ample = _budget(rows) >= AMPLE * float(rows.loc[tasks == pair[0], "steps"].iloc[0])
        parts[name] = verdict if ample else verdict.but(UNDECIDED, needs=f"{AMPLE} times the median steps of {pair[0]}")
    return combine(parts, error_rate=LEVEL)


def _budget(rows: pd.DataFrame) -> float:
    """Return the smallest number of steps after which transformers count as not generalising; 0 where it is unknown."""
    return float(rows["budget"].min()) if "budget" in rows else 0.0


@claim(
    id="modular/some-operations-are-not-learned",
    statement="Networks do not generalise x^3 + xy^2 + y within the budget from any fraction of the pairs up to 95%.",
    source="Power et al. (2022), section 3.2, figure 2 (right)",
    setting=SETTING,
    rule="At fractions up to 90%, fewer than 20% (our choice) of all trials generalise, and fewer than half at "
    "the largest fraction, by exact limits at 1% each; larger shares fail. Fractions above 90% are not "
    "trained. Networks that do not learn x^2 + xy + y^2 either, which the source's learn, decide nothing: over half of "
    "them must generalise it from the largest fraction (exact limit at 1%).",
    revised="The rule pooled all fractions, so an operation learned only from 90% of the pairs would have passed. Then "
    "the largest fraction was also judged by itself, and the error rate was 2%, not 5%, with the same verdict. But the "
    "same networks generalise x^2 + xy + y^2 in no trial either, and so might learn no polynomial of this degree. They "
    "are now asked to, after the tables had been seen, and the claim, which held, is undecided, on fresh seeds too.",
)
def not_learned(tables: Tables) -> Verdict:
    needs = "eight trials or more at each fraction of x^3+xy^2+y, up to 0.9: the laptop scale"
    rows = table(tables, "table", needs)
    control = rows[rows["task"].str.startswith("x^2+xy+y^2 ")].sort_values("fraction").tail(1)
    rows = rows[rows["task"].str.startswith("x^3+xy^2+y ")]
    if rows.empty or rows["trials"].min() < 8 or rows["fraction"].max() < 0.9:
        raise InsufficientData(needs)
    solved, trials = int(rows["solved"].sum()), int(rows["trials"].sum())
    level = LEVEL / 2
    low, high = share_limits(solved, trials, level)
    largest = rows.sort_values("fraction").iloc[-1]
    most, count = int(largest["solved"]), int(largest["trials"])
    least_there, most_there = share_limits(most, count, level)
    because = f"{solved} of {trials} trials generalise, {most} of {count} from {largest['fraction']:.0%} of the pairs"
    numbers = {
        "solved": solved,
        "trials": trials,
        "limits": [low, high],
        "at the largest fraction": {"solved": most, "trials": count, "limits": [least_there, most_there]},
    }
    known, of = int(control["solved"].sum()), int(control["trials"].sum())
    because += f", and x^2+xy+y^2 from as many in {known} of {of}"
    able = share_limits(known, of, level)[0] > HALF
    needs = "more trials" if able else "networks that generalise x^2+xy+y^2, as the source's do"
    rarely = able and high < RARELY and most_there < HALF
    return decided(rarely, low > RARELY or least_there > HALF, because, numbers, LEVEL, needs)


CLAIMS = (symmetric_need_less, not_learned)
