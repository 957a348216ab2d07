"""The claim of ``disjoint-polynet``."""

import pandas as pd

from elegans.experiments import Tables, Verdict, claim
from elegans.experiments.rules import LEVEL, at_least, combine, table
from elegans.studies.hidden_progress.rules import PLATEAU, by_middle

RATES = {(10, 3): (1e-4, 3e-4), (30, 3): (1e-5, 3e-5), (10, 4): (1e-5, 3e-5), (30, 4): (3e-6, 1e-5)}
"""By n' and k: the learning rates of stochastic descent, where the figure names none of the three."""
STARTS = 25
FACTOR = 1.5
"""The factor within which the times of stochastic descent and gradient flow agree (our choice)."""


@claim(
    id="progress/figure-b1-curves",
    statement="A disjoint PolyNet under small-step population descent shows a long plateau and a sudden drop of "
    "its error, and SGD with one example per step at a constant learning rate looks the same.",
    source="figure B.1",
    setting="correlation loss, standard normal start; silent: n', k and the learning rates",
    rule="25 starts with a positive product for n' = 10 and 30, k = 3 and 4, two learning rates each (all ours). "
    "The time until the error stays below 45% over that until it stays below 5% has a median above 0.5 for both "
    "descents (0 for runs that never get there; a straight line has 0.11), and the median time of SGD to 25%, over "
    "that of the flow from the same weights, lies between 1/1.5 and 1.5; order-statistic intervals at a joint "
    "level of 5%. In part: the cells named.",
)
def alike(tables: Tables) -> Verdict:
    """Decide figure B.1, for each size and learning rate: plateaus of both descents, and the ratio of their times."""
    level = LEVEL / sum(1 + 2 * len(rates) for rates in RATES.values())
    found = {}
    for (block, k), rates in RATES.items():
        name = f"n' = {block}, k = {k}"
        flow = _runs(tables, block, k, descent="population")["plateau"]
        found[f"{name}, population"] = by_middle("the share of plateau", flow, above=PLATEAU, level=level)
        for rate in rates:
            runs = _runs(tables, block, k, descent="sgd", rate=rate)
            plateau = by_middle("the share of plateau", runs["plateau"], above=PLATEAU, level=level)
            late = by_middle(
                "its time to 25% over the flow's", runs["lag"], above=1 / FACTOR, below=FACTOR, level=level
            )
            found[f"{name}, rate {rate:g}"] = combine({"plateau": plateau, "time": late})
    return combine(found, LEVEL)


def _runs(tables: Tables, block: int, k: int, **where: object) -> pd.DataFrame:
    needs = f"{STARTS} starts of {k} blocks of {block} by population descent and at {len(RATES[block, k])} rates"
    return at_least(STARTS, table(tables, "shapes", needs, block=block, k=k, **where), needs)


CLAIMS = (alike,)
