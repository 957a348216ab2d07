"""The claims of ``attention-pictures``."""

import numpy as np
import pandas as pd

from elegans.experiments import Tables, Verdict, claim
from elegans.experiments.rules import LEVEL, at_least, combine, decided, table
from elegans.studies.induction_heads.rules import enough, first_at, gap_closed, most, runs_of

NEEDS = "40 seeds of two and three symbols at 100 tokens, trained until losses settle"
CELLS = ("k = 2", "k = 3")
RUNS = 40
FORMED, UNIFORM, COVERED, LARGEST = 10.0, 0.1, 0.6, 0.9
"""Masses and shares that mark heads as formed, or as not formed yet (our choice)."""
SETTING = "main setting, learning rate 1e-3, which matches the printed axis (printed: 3e-5, scale paper)"


def _runs(tables: Tables, cell: str) -> list[pd.DataFrame]:
    return runs_of(tables, NEEDS, trials=RUNS, least_steps=1500, cell=cell)


def _heads(tables: Tables, cell: str) -> pd.DataFrame:
    _runs(tables, cell)
    return at_least(RUNS, table(tables, "heads", NEEDS, cell=cell).sort_values("seed"), NEEDS).head(RUNS)


@claim(
    id="induction/attention-ends-as-induction-head",
    statement="Attention is uniform at first; at the end the first layer attends to the previous token, and the "
    "second, from the last query, to tokens that followed earlier copies of the current one.",
    source="figures 8.2 and E.5, section 8.3.1",
    setting=SETTING + "; not stated: the sequence, the times shown, any number",
    rule="40 fresh seeds, k = 2 and 3. At step 0 both masses are within 10% of uniform attention's. At the end the "
    "first mass is at least 10 times uniform attention's, the previous token has the largest weight for 90% of the "
    "queries, and the second mass is at least 60% of what uniform attention leaves over (our choice). Each part must "
    "hold in most runs (sign test). Four parts share an error rate of 2%: 29 of 40 runs each",
    revised="Before, 16 of 20 runs were enough, with an error rate of 0.6% per part, and then 17 of 20. The "
    "verdict is the same.",
)
def ends_as_induction_head(tables: Tables) -> Verdict:
    parts, level = {}, LEVEL / 4
    for cell in CELLS:
        runs, heads = _runs(tables, cell), _heads(tables, cell)
        names = ("previous", "induction")
        starts = np.array([[run[name].iloc[0] / run[f"uniform_{name}"].iloc[0] for name in names] for run in runs])
        even = (np.abs(starts - 1) <= UNIFORM).all(axis=1)
        parts[f"uniform at first, {cell}"] = most("both masses are uniform attention's", even, runs=RUNS, level=level)
        mass = np.array([run["previous"].iloc[-1] / run["uniform_previous"].iloc[-1] for run in runs])
        covered = (heads["induction"] - heads["uniform_induction"]) / (1 - heads["uniform_induction"])
        formed = (mass >= FORMED) & (heads["previous_largest"].to_numpy() >= LARGEST) & (covered.to_numpy() >= COVERED)
        parts[f"induction head at the end, {cell}"] = most("both layers are formed", formed, runs=RUNS, level=level)
    return combine(parts)


@claim(
    id="induction/heads-are-statistical",
    statement="The heads compute the conditional probability given all earlier occurrences of the current token, "
    "not a copy of what followed the last one.",
    source="section 8.1 (first finding), abstract",
    setting=SETTING + "; not stated: any measure besides figures of attention and the loss",
    rule="40 fresh seeds, k = 2 and 3, on 2048 sequences at the end. (i) Among the tokens that followed copies, the "
    "most recent has less than twice their mean weight, and the earliest third has more than half of it. (ii) The "
    "divergence of the network from the best prediction from the last such token is at least 5 times its divergence "
    "from add-one bigrams. (iii) 90% of the variance of centred logits is linear in frequencies (our choice). Each "
    "part must hold in most runs (sign test). Six parts share an error rate of 2%: 29 of 40 runs each",
    revised="Before, 10 of the first 13 runs were enough, with an error rate of 4.6% per part, and then 17 of "
    "20. The verdict is the same.",
)
def statistical(tables: Tables) -> Verdict:
    parts: dict[str, Verdict] = {}
    for cell in CELLS:
        heads = _heads(tables, cell)
        shown = {
            "(i) weights spread over copies": (heads["recent"] < 2) & (heads["earliest"] > 0.5),
            "(ii) far from copying the last": heads["copying"] >= 5 * heads["statistical"],
            "(iii) linear in frequencies": heads["explained"] >= 0.9,
        }
        parts |= {f"{name}, {cell}": most(name, there, runs=RUNS, level=LEVEL / 6) for name, there in shown.items()}
    return combine(parts)


@claim(
    id="induction/second-layer-first-transformer",
    statement="In the transformer, too, the second layer seems to be learned first, though this is less clear; the "
    "appendix attributes the first drop to the second layer; even with nearly final weights its attention can "
    "differ strongly from the final one if the first layer differs.",
    source="sections 8.3.1 and 8.3.2 with figure 8.2, end of E.1",
    setting=SETTING + "; not stated: any measure",
    rule="40 fresh seeds, k = 2 and 3. (a) The second layer comes first in most runs by three measures: masses risen "
    "by half, transplants of the layer alone, and transplants of all but the other layer; a tie counts for neither "
    "layer. All three must hold; if two have opposite answers, it holds in part. (b) At the first check with a loss "
    "of at most 1.15 times "
    "the unigram line, the second layer, put into the final network, closes more of the way from the loss with the "
    "untrained layer to the final loss than the first layer does in the same way. (c) The final second layer, on "
    "top of the first layer from half the time to the transition, is within 20% of uniform attention (our choice). "
    "Sign tests; six parts share an error rate of 2%: 29 of 40 runs, and 30 for each of the measures in (a)",
    revised="Before, 10 of the first 13 runs were enough, with an error rate of 4.6% per part, and ties counted for "
    "the first layer. The verdict was the same. (b) measured from the unigram line; but the final network with "
    "the untrained second layer loses more than unigrams do, so that (b) failed although the early layer closes about "
    "a third. It then asked for half of the way, a tenth being too little, and the claim was undecided; but the source "
    "says which layer the first drop belongs to, not how much of it is learned, so that (b) now compares the two. Both "
    "changes were made after tables had been seen. On 20 seeds drawn after the second change, (b) held but (a) was "
    "open (17 of 20 by masses), so 40 new seeds were asked for. On these (a) is open at k = 2 alone, by one run.",
)
def second_first(tables: Tables) -> Verdict:
    parts, level = {}, LEVEL / 6
    for cell in CELLS:
        runs = _runs(tables, cell)
        times = pd.DataFrame(map(_times, runs))
        second = {str(name): sum(two < one for one, two in times[name]) for name in times}
        first = {str(name): sum(one < two for one, two in times[name]) for name in times}
        because = ", ".join(
            f"{name}: second first in {second[name]} of {RUNS}, first in {first[name]}" for name in first
        )
        least = enough(RUNS, level / len(second))
        for_second = sum(count >= least for count in second.values())
        for_first = sum(count >= least for count in first.values())
        part = "some measures: the evidence is not clear, as stated" if for_second and for_first else ""
        parts[f"(a) {cell}"] = decided(for_second == 3, for_first == 3, because, second, level, "more seeds", part=part)
        parts[f"(b) {cell}"] = _first_drop(np.array([_closed_at_the_first_drop(run) for run in runs]), level)
        heads = _heads(tables, cell)
        near = (heads["mixed_induction"] / heads["uniform_induction"] - 1).abs() <= 0.2
        parts[f"(c) {cell}"] = most("the final second layer is uniform on an early first", near, runs=RUNS, level=level)
    return combine(parts)


def _first_drop(closed: np.ndarray, level: float) -> Verdict:
    """Decide by the shares of their gaps that the layers close; ties count for neither."""
    one, two = np.median(closed, axis=0)
    first, second = int((closed[:, 0] > closed[:, 1]).sum()), int((closed[:, 1] > closed[:, 0]).sum())
    least = enough(RUNS, level)
    because = (
        f"after the first drop the second layer closes more of its gap than the first in {second} of {RUNS} runs, less "
        f"in {first}; claimed of a typical run (at least {least}); medians {two:.2f} and {one:.2f}"
    )
    numbers = {"shown": second, "runs": RUNS, "closed": closed.tolist(), "first": float(one), "second": float(two)}
    return decided(second >= least, first >= least, because, numbers, level, "more seeds")


def _times(run: pd.DataFrame) -> dict[str, tuple[float, float]]:
    """Return by measure the steps at which the first and the second layer were learned."""
    previous, induction = (
        first_at(run, run[name] >= (run[name].iloc[0] + run[name].iloc[-1]) / 2) for name in ("previous", "induction")
    )
    evaluated = run.dropna(subset="intact")
    middle = (evaluated["line.unigram"] + evaluated["line.bigram"]) / 2
    layers = {name: first_at(evaluated, evaluated[name] < middle) for name in evaluated if str(name)[:5] == "layer"}
    return {
        "masses": (previous, induction),
        "layer alone": (layers["layer1_alone"], layers["layer2_alone"]),
        "all but the other layer": (layers["layer1_with_ends"], layers["layer2_with_ends"]),
    }


def _closed_at_the_first_drop(run: pd.DataFrame) -> tuple[float, float]:
    """Return, for the first and the second layer, the share of its gap that it has closed after the first drop.

    In the final network one layer is put back to an earlier state, its initial one or the one after the first drop. Its
    gap is the loss with the initial state minus the loss of the final network; the share closed is the part by which
    the state after the drop lowers the loss. Without a drop both shares are 0.
    """
    evaluated = run.dropna(subset="intact")
    fallen = evaluated[evaluated["intact"] <= 1.15 * evaluated["line.unigram"]]
    if fallen.empty:
        return 0.0, 0.0
    best = float(evaluated["intact"].iloc[-1])
    first, second = (
        float(gap_closed(fallen[name].iloc[0], evaluated[name].iloc[0], best))
        for name in ("layer1_alone", "layer2_alone")
    )
    return first, second


CLAIMS = (ends_as_induction_head, statistical, second_first)
