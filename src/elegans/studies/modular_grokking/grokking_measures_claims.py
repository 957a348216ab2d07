"""The claim that progress measures change before a network generalises: they predict when it will."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from elegans.experiments.claims import Claim, Lacking, Verdict
from elegans.experiments.rules import decided, holm, table, together

MEASURES = ("restricted loss", "excluded loss", "Gini coefficient")
"""Those of the source."""
NONE, LEAST = 0.1, 50
"""The rank correlation below which there is none, and the least number of networks; ours."""


def measures_predict(tables: Mapping[str, pd.DataFrame]) -> Verdict:
    """Decide whether each measure depends on the remaining time among networks that have not generalised."""
    from scipy.stats import norm

    needs = f"{LEAST} networks or more at half of their median time: the laptop scale"
    rows = table(tables, "table", needs, predictor=list(MEASURES), share=0.5)
    if rows["trials"].min() < LEAST:
        raise Lacking(needs)
    moved = np.arctanh(rows["correlation"].fillna(0).abs()) * np.sqrt((rows["trials"] - 3) / 1.06)
    loss = table(tables, "table", needs, predictor="held-out loss", share=0.5)
    of_loss = dict(zip(loss["network"], loss["correlation"], strict=True))
    parts = {}
    for row, p in zip(rows.to_dict("records"), holm(list(2 * norm.sf(moved))), strict=True):
        largest = max(abs(row["low"]), abs(row["high"]))
        other = of_loss[row["network"]]
        interval = f"{row['low']:.2f} to {row['high']:.2f}"
        because = f"rank correlation {row['correlation']:.2f} ({interval}), of the held-out loss {other:.2f}"
        numbers = {"correlation": row["correlation"], "interval": [row["low"], row["high"]], "p": p, "of_loss": other}
        name = f"{row['network']}, {row['predictor']}"
        parts[name] = decided(p <= 0.05, largest < NONE, because, numbers, 0.05, "more networks")
    return together(parts, error_rate=0.05)


CLAIMS = (
    Claim(
        id="modular/progress-measures-predict-generalisation",
        statement="Restricted loss, excluded loss and the Gini coefficient change before a network generalises, so "
        "that grokking is the end of gradual progress.",
        source="Nanda et al. (2023), section 5",
        setting="one transformer, p = 113, 30% of the pairs; ours: two-layer, p = 23, key frequencies of the moment",
        rule="Among networks that have not generalised at half of the median time, Spearman's correlation of each "
        "measure with the remaining time differs from 0 (Holm over networks and measures, 5%); none: its interval "
        "within 0.1 of 0 (ours). That of the held-out loss is reported beside it.",
        decide=measures_predict,
    ),
)
