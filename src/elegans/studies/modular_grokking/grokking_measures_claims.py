"""The claims on progress measures: that they predict when a network generalises, and tell three phases apart."""

from typing import Any

import numpy as np
import pandas as pd

from elegans.experiments import InsufficientData, Tables, Verdict, claim
from elegans.experiments.claims import FAILS, HOLDS, IN_PART, UNDECIDED
from elegans.experiments.rules import LEVEL, at_least, by_share, combine, decided, holm, table

MEASURES = ("restricted loss", "excluded loss", "Gini coefficient")
"""The source's sizes."""
NONE, LEAST = 0.1, 50
"""The rank correlation below which there is none, and the least number of networks; ours."""
FITTED, FALLEN, RISEN, SHRUNK = 0.1, 0.5, 1.1, 0.9
"""By what factors training, restricted and excluded loss and the sum of squared weights change; ours."""
MOST, CHANCE, FEWEST = 0.75, 0.5, 7
"""The shares of five frequencies in a sparse embedding's power and in a random one, and the least number of networks;
ours."""


@claim(
    id="modular/progress-measures-predict-generalisation",
    statement="Restricted loss, excluded loss and the Gini coefficient change before a network generalises, so "
    "grokking is the end of gradual progress.",
    source="Nanda et al. (2023), section 5",
    setting="one transformer, p = 113, 30% of the pairs; here: two-layer networks, p = 23, the key frequencies at "
    "each moment",
    rule="Among networks that have not generalised at half of the median time, Spearman's correlation of each measure "
    "with the remaining time differs from 0 (Holm over networks and measures, 2%); none: its interval within 0.1 of 0 "
    "(our choice; by Fisher's transform, at 2% over all). The correlation of the held-out loss is reported beside it. "
    "The source says that the measures change before, not that they predict: if none does, the claim stays undecided.",
)
def measures_predict(tables: Tables) -> Verdict:
    from scipy.stats import norm

    needs = f"{LEAST} networks or more at half of their median time: the laptop scale"
    rows = table(tables, "table", needs, predictor=list(MEASURES), share=0.5)
    if rows["trials"].min() < LEAST:
        raise InsufficientData(needs)
    ranks, spread = rows["correlation"].fillna(0).astype(float), np.sqrt(1.06 / (rows["trials"] - 3))
    moved, reach = np.arctanh(ranks.abs()) / spread, norm.isf(LEVEL / 2 / len(rows)) * spread
    rows = rows.assign(low=np.tanh(np.arctanh(ranks) - reach), high=np.tanh(np.arctanh(ranks) + reach))
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
        parts[name] = decided(p <= LEVEL, largest < NONE, because, numbers, LEVEL, "more networks")
    verdict = combine(parts, error_rate=LEVEL)
    needs = "the measures along training: a measure may change early and predict nothing"
    return verdict.but(UNDECIDED, needs=needs) if verdict.verdict == FAILS else verdict


@claim(
    id="modular/transformers-grok-in-three-phases",
    statement="Training has three phases: the network memorises the training set, then forms the circuit that "
    "generalises while the test loss stays high, and finally removes what it memorised.",
    source="Nanda et al. (2023), section 5.2, figure 7",
    setting="one transformer, p = 113, 30% of the pairs, key frequencies of the trained network; here: the key "
    "frequencies at each moment",
    rule="Among transformers that generalise, at the last measurement with a held-out error above 1/2 (our choice): "
    "the training loss is below 10% of its initial value, the restricted loss below 50%, the excluded loss over 10% "
    "above its least value until then, and from then to the end the sum of squared weights falls by over 10% (all our "
    "choices). Most networks show all four (exact limits, 2%); in part if not, but most show some (2% over the four).",
    revised="The four properties were separate parts, and most networks had to show each, with an error rate of 5% "
    "over them. Now a network must show all four, at 2%. The verdict is the same.",
)
def three_phases(tables: Tables) -> Verdict:
    rows = _transformers(tables)
    shown = {
        "memorisation: the training loss has fallen": rows["train"] < FITTED,
        "circuit formation: the restricted loss has fallen": rows["restricted"] < FALLEN,
        "circuit formation: the excluded loss has risen": rows["excluded"] > RISEN,
        "clean-up: the weights shrink from then on": rows["norm"] < SHRUNK,
    }
    every = pd.DataFrame(shown).all(axis=1)
    verdict = by_share("transformers that show all phases", int(every.sum()), len(rows))
    counts: dict[str, Any] = {name: int(each.sum()) for name, each in shown.items()}
    parts = {
        name: by_share(name, count, len(rows), level=LEVEL / len(counts)).verdict for name, count in counts.items()
    }
    held = ", ".join(name for name, part in parts.items() if part == HOLDS)
    if verdict.verdict == FAILS and held:
        return verdict.but(IN_PART, needs=f"holds for {held}", **counts)
    return verdict.but(**counts)


@claim(
    id="modular/transformer-embeddings-become-sparse",
    statement="The Fourier spectrum of a trained transformer's embedding is sparse: a few key frequencies hold "
    "nearly all of its power.",
    source="Nanda et al. (2023), section 4.1, figure 3",
    setting="one transformer, p = 113, after 40,000 steps; here: 2900 steps after 99% of the held-out pairs are "
    "right; small transformers, p = 31, at that step",
    rule="In most transformers that generalise, five of the (p - 1)/2 frequencies hold over 3/4 of the power of the "
    "numbers' embedding at the end, and under 1/2 initially (our choice; exact limits, 2%).",
    revised="The rule is unchanged. Transformers with p = 113 were first trained until 99% of the held-out pairs were "
    "right. Five frequencies then had 60% to 73% of the power in all seven transformers, and the claim failed there.",
)
def sparse_embedding(tables: Tables) -> Verdict:
    rows = _transformers(tables)
    sparse = (rows["first_after"] > MOST) & (rows["first_before"] < CHANCE)
    verdict = by_share("transformers whose embedding becomes sparse", int(sparse.sum()), len(rows))
    before, after = (float(rows[name].median()) for name in ("first_before", "first_after"))
    shares = f"median share {before:.2f} initially and {after:.2f} at the end"
    return verdict.but(because=shares, first_before=before, first_after=after)


def _transformers(tables: Tables) -> pd.DataFrame:
    """Return the phases of the transformers that generalise."""
    needs = f"{FEWEST} transformers that generalise"
    rows = table(tables, "phases", needs, generalised=True)
    return at_least(FEWEST, rows[rows["network"].str.startswith("transformer")], needs)


CLAIMS = (measures_predict, three_phases, sparse_embedding)
