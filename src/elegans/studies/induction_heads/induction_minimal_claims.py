"""The claims of ``induction-minimal``."""

import numpy as np
import pandas as pd

from elegans.experiments import Tables, Verdict, claim
from elegans.experiments.rules import combine
from elegans.studies.induction_heads.rules import by_ratios, ends_of, first_at, most, near_best, runs_of
from elegans.studies.induction_heads.tables import transition

NEEDS = "13 seeds of two and three symbols, 4000 steps each"


def _cell(tables: Tables, cell: str) -> list[pd.DataFrame]:
    runs = runs_of(tables, NEEDS, trials=13, cell=cell)
    return runs if runs[0]["step"].max() >= 4000 else runs_of({}, NEEDS, trials=13)


@claim(
    id="induction/minimal-reaches-bigrams",
    statement="The minimal model, too, converges to the bigram solution.",
    source="section 8.3.2, figure 8.3 (bottom)",
    setting="equation 8.8, SGD with learning rate 2e-3, batches of 64, 100 tokens, W = 0 and v constant; silent: "
    "the constant (0.02), the steps (4000), k, whether the loss or the strategy is meant",
    rule="13 seeds, k = 2 and 3: (a) bigrams are the closest strategy at the end; (b) the loss closes 85% of the "
    "gap between unigrams and add-one bigrams and is at most twice the latter (ours); (c) the same of the loss "
    "with the best factor, against the best multiple of exact counts; each in 10 of 13 runs. The source's "
    "statement is (a) and (b); exact counts cannot meet (b). Error rate 4.6% each",
)
def reaches_bigrams(tables: Tables) -> Verdict:
    parts = {}
    for cell in ("k = 2", "k = 3"):
        runs = _cell(tables, cell)
        closest = [run["phase"].iloc[-1] == "bigram" for run in runs]
        parts[f"closest strategy, {cell}"] = most("bigrams are closest at the end", closest)
        parts[f"loss, {cell}"] = near_best("the loss", ends_of(runs))
        rescaled = ends_of(runs, loss="own", best="limit")
        parts[f"loss with the best factor, beside counts, {cell}"] = near_best("the rescaled loss", rescaled)
    return combine(parts)


@claim(
    id="induction/minimal-parameters-as-in-figure",
    statement="While the minimal model already implements bigrams but has not converged, W is close to diagonal "
    "and v alternates: larger at even indices, v_2 largest, although the other even ones are useless.",
    source="figure 8.4b, section 8.3.2",
    setting="minimal model, k = 2; silent: the step and the sizes",
    rule="13 seeds, k = 2 and 3, where the loss is first below the middle of unigrams and bigrams: largest entry "
    "off the diagonal at most a quarter of the least on it (ours); v_2, v_4, v_6 above both neighbours and v_2 "
    "the largest; each in 10 of 13 runs. Error rate 4.6% each",
)
def parameters_at_the_transition(tables: Tables) -> Verdict:
    parts = {}
    for cell in ("k = 2", "k = 3"):
        runs = _cell(tables, cell)
        moved = {index: run[run["step"] == transition(run)] for index, run in enumerate(runs)}
        never = [run.tail(1).assign(diagonal_least=np.nan) for index, run in enumerate(runs) if moved[index].empty]
        there = pd.concat([*moved.values(), *never])
        diagonal = there["off_largest"] <= 0.25 * there["diagonal_least"]
        parts[f"W close to diagonal, {cell}"] = most("entries off the diagonal are at most a quarter", diagonal)
        even = there[["v_2", "v_4", "v_6"]].to_numpy()
        odd = there[["v_1", "v_3", "v_5", "v_7"]].to_numpy()
        alternates = (even > odd[:, :-1]).all(axis=1) & (even > odd[:, 1:]).all(axis=1)
        places = there[[f"v_{place}" for place in range(1, 11)]].to_numpy()
        learned = there["diagonal_least"].notna().to_numpy()
        shown = alternates & (places.argmax(axis=1) == 1) & learned
        parts[f"v alternates, {cell}"] = most("v_2, v_4 and v_6 exceed their neighbours, v_2 all", shown)
    return combine(parts)


@claim(
    id="induction/second-layer-first-minimal",
    statement="In the minimal model the second layer, W, picks up the solution first and quickly; the positional "
    "weights follow.",
    source="section 8.3.2 (second layer first), end of E.1",
    setting="minimal model; silent: any measure, and the start: W = 0 (caption of figure 8.3) and W = c 1 1^T, v "
    "= c 1 (theory) are both judged",
    rule="13 seeds, k = 2 and 3, both starts: steps until W of a step with the final v, and v of a step with the "
    "final W, each rescaled, pass the middle of the losses of unigrams and of the best multiple of counts; the "
    "second over the first exceeds 1 in 10 of 13 runs, and its 97.8% interval 3 (ours). Error rate 4.6% each",
)
def pair_first(tables: Tables) -> Verdict:
    parts = {}
    for cell in ("k = 2", "k = 3", "k = 2, constant start", "k = 3, constant start"):
        ratios = []
        for run in _cell(tables, cell):
            middle = (run["line.unigram"] + run["limit"]) / 2
            first, second = (first_at(run, run[name] < middle) for name in ("early_pair", "early_position"))
            ratios.append(second / max(first, 1.0) if np.isfinite(first) else np.nan)
        parts[cell] = by_ratios("steps of v over those of W", ratios, above=3)
    return combine(parts)


CLAIMS = (reaches_bigrams, parameters_at_the_transition, pair_first)
