"""The claim of ``curriculum``: the result of two steps with a curriculum on sequences."""

import pandas as pd

from elegans.experiments import Tables, Verdict, claim
from elegans.experiments.rules import LEVEL, combine, decided, table
from elegans.studies.induction_heads.rules import CLOSED, gap_closed, in_order

LENGTH, SEQUENCES = 100, 1_000_000
"""The length of figures E.1 and E.2 (the proposition names none), and the number of sequences of the paper scale."""


@claim(
    id="induction/curriculum-on-sequences",
    statement="Two steps, on chains with flat rows and then on chains near coin flips with weight decay 1, lead to "
    "the bigram solution: W is diagonal and v_2 the largest coordinate, and the logits are bigram counts.",
    source="Propositions 8.5 and E.3",
    setting="k = 2, margin loss, long sequences; not stated: the length (100 here), epsilon (1/4 here) and the "
    "constants of the learning rates (100/t^2 and 10/t here)",
    rule="Added to the list of claims. SGD takes 10^6 sampled sequences per step, and we judge means and standard "
    "errors over 5000 networks; the second step starts from the exact weights after the first. W_11 and W_22 exceed "
    "W_12 and W_21, and v_2 exceeds every other coordinate, both beyond sampling error at a joint level of 2%. The "
    "best multiple of the mean weights' logits closes 85% of the gap between the best multiples of unigram counts and "
    "of bigram counts (our choice), so that bigram counts close all of it; if not, this part fails.",
    revised="The claim was undecided until 10^6 sequences were run. The predictor then had to close 85% of the gap "
    "between the smoothed strategies at twice the loss of bigrams or less, which bigram counts miss (84%, at 2.3 "
    "times), and held in part because it closed half. Now the counts are the lines, and the part fails. The rule was "
    "changed after the table had been seen. The claim holds in part, as before, for W and v.",
)
def on_sequences(tables: Tables) -> Verdict:
    pair, position = (_rows(tables, name, step=2) for name in ("pair", "position"))
    entries = pair.set_index(pair["entry"].astype(str))[["measured", "error"]]
    diagonal, others = entries.loc[["11", "11", "22", "22"]], entries.loc[["12", "21", "12", "21"]]
    places = position.set_index("place")[["measured", "error"]]
    rest = places.drop(index=2)
    return combine(
        {
            "W": in_order("diagonal entries above the others", diagonal, others, level=LEVEL / 2),
            "v": in_order("v_2 above each other coordinate", places.loc[[2] * len(rest)], rest, level=LEVEL / 2),
            "predictor": _predictor(_rows(tables, "predictors", source="measured")),
        }
    )


def _rows(tables: Tables, name: str, **where: object) -> pd.DataFrame:
    needs = f"{SEQUENCES:,} sequences of {LENGTH} tokens"
    return table(tables, name, needs, length=LENGTH, sequences=SEQUENCES, **where)


def _predictor(rows: pd.DataFrame) -> Verdict:
    """Decide whether the best multiple of the mean weights' logits predicts about as well as that of bigram counts."""
    row = rows.iloc[0]
    closed = float(gap_closed(row["loss"], row["unigram_loss"], row["bigram_loss"]))
    ratio = float(row["loss"] / row["bigram_loss"])
    because = f"it closes {closed:.3g} of the gap from unigram to bigram counts, at {ratio:.3g} times the loss of these"
    numbers = {"gap_closed": closed, "over_bigrams": ratio, "loss": float(row["loss"])}
    return decided(closed >= CLOSED, closed < CLOSED, because, numbers, 0.0, "")


CLAIMS = (on_sequences,)
