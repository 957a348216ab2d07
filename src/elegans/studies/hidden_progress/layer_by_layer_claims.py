"""The claims on deep quadratic networks (appendix B.3.7)."""

from typing import Any

from elegans.experiments import InsufficientData, Tables, Verdict, claim
from elegans.experiments.claims import IN_PART, UNDECIDED
from elegans.experiments.rules import LEVEL, combine, decided, share_limits, table

SIZES, SEEDS = (10, 20, 30), 10
ALL_TEN = LEVEL ** (1 / SEEDS)
"""The smallest share at which ten of ten trials are solved one time in fifty."""

SETTING = (
    "z^2, SGD at rate 0.01, B = 32, n = 10, 20, 30, 10 seeds, uniform initial weights on the 'Xavier' scale of B.4.1, "
    "which has the hinge loss in all figures; not stated: which of two scales is meant, loss here, output bias"
)


@claim(
    id="progress/deep-three-layers",
    statement="A quadratic network of three layers with widths (2, 1) learns every parity of up to four bits end "
    "to end; all ten seeds converge within 20,000 steps.",
    source="appendix B.3.7; section 5.5",
    setting=f"{SETTING}. Our choice: hinge, an output bias, both conventions of the initial scale",
    rule="k = 3 and 4, 40 trials per cell. A cell fails if its share of solved trials is below 0.68, at which ten of "
    "ten occur one time in fifty (exact limits, 0.5% over the cells). Holds if no cell fails and over 94% of all "
    "trials are solved, at which all ten of all six cells occur one time in fifty (exact limit at 0.5%). Holds in "
    "part for the cells that do not fail, or if none fails and under 94% of all trials are solved. Each convention of "
    "the initial scale is judged.",
    revised="The rule had no verdict if no cell fails but too few trials are solved in all, and left a run with that "
    "result (85% and 81%) undecided. In that case the claim now holds in part; this rule was judged on other seeds. "
    "Later, the shares were derived from the printed ten of ten at 2%, not 5% (0.68 and 0.94 instead of 0.74 and "
    "0.95), and the limit, not the estimate, of the total share became decisive. The claim held in part before and "
    "does so now.",
)
def three_layers(tables: Tables) -> Verdict:
    return combine(
        {
            f"{convention} initialisation": _cells(tables, "(2, 1)", (3, 4), 20_000, convention, 40, LEVEL / 4)
            for convention in ("fan-in", "glorot")
        }
    )


@claim(
    id="progress/deep-four-layers",
    statement="A quadratic network of four layers with widths (10, 10, 1) learns parities of up to six bits within "
    "50,000 steps with all ten seeds, and k = 7 and (10, 8) within 500,000.",
    source="appendix B.3.7",
    setting=f"{SETTING}, seeds for k = 7 and 8. Our choice: hinge, an output bias, scale 1/sqrt(fan-in)",
    rule="For k = 4, 5, 6, with 30 trials per cell, as for three layers, at 1% each for the cells and for all trials "
    "together. Each of (10, 7), (20, 7), (30, 7) and (10, 8) is solved in at least one of 10 trials, since the source "
    "gives no number for them, the weakest reading. If none of the 10 is solved, this part is undecided, and so is the "
    "claim, unless it holds in part at k up to 6.",
    revised="Cells in which none of ten trials was solved counted as failures, but so few trials cannot show this. "
    "The shares are now derived from the printed ten of ten at 2%, not 5%. A size at which none of ten was solved left "
    "the claim undecided even if cells at k up to 6 failed. The claim held in part before and does so now.",
)
def four_layers(tables: Tables) -> Verdict:
    parts = {"k up to 6": _cells(tables, "(10, 10, 1)", (4, 5, 6), 50_000, "fan-in", 29, LEVEL / 2)}
    for n, k in ((10, 7), (20, 7), (30, 7), (10, 8)):
        cell = _cell(tables, "(10, 10, 1)", n, k, 500_000, "fan-in", 10)
        solved, trials = cell["solved"], cell["trials"]
        numbers = {"solved": solved, "trials": trials}
        parts[f"({n}, {k})"] = decided(solved > 0, False, f"{solved} of {trials} solved", numbers, 0.0, "more trials")
    whole = combine(parts)
    if whole.verdict != UNDECIDED or parts["k up to 6"].verdict != IN_PART:
        return whole
    unsolved = [name for name, part in parts.items() if part.verdict == UNDECIDED]
    found = combine({name: part for name, part in parts.items() if name not in unsolved})
    return found.but(because=f"none of ten solved at {', '.join(unsolved)}")


@claim(
    id="progress/deep-sanity-failures",
    statement="Networks whose degree is below k do not converge: two layers at k of 3 or more, three layers at 5 "
    "or more.",
    source="appendix B.3.7",
    setting=f"{SETTING}, widths and steps. Our choice: widths (100) and (100, 1), n = 10, 50,000 steps",
    rule="No trial of 14 or more is solved at k = 3 and 4 with two layers and k = 5 and 6 with three; one solved "
    "trial refutes the claim. None can be solved: the sign of a polynomial of degree below k differs from a parity of "
    "k signs for at least one of the 2^k settings of these signs, and the 8192 examples of a check miss all such "
    "inputs with a "
    "probability below 1e-50. So there is no error rate.",
    revised="The rule required an upper limit of 20% on the share of solved trials, with an error rate of 5%, "
    "although the networks' degree already decides the question. The claim held before and holds now.",
)
def sanity(tables: Tables) -> Verdict:
    parts = {}
    for widths, k in (("(100,)", 3), ("(100,)", 4), ("(100, 1)", 5), ("(100, 1)", 6)):
        cell = _cell(tables, widths, 10, k, 50_000, "fan-in", 14)
        solved, trials = cell["solved"], cell["trials"]
        high = share_limits(solved, trials)[1]
        because = f"{solved} of {trials} solved (at most {high:.2g}), median error {cell['test_error']:.3g}"
        numbers = {"solved": solved, "trials": trials, "at_most": high, "median_error": cell["test_error"]}
        parts[f"{widths}, k = {k}"] = decided(solved == 0, solved > 0, because, numbers, 0.0, "")
    return combine(parts)


@claim(
    id="progress/greedy-layer-no-signal",
    statement="When layers are trained one by one, the population gradient of a quadratic layer is 0 for k > 2, so "
    "greedy layer-wise training cannot beat trivial performance; trained end to end, the gradient is not 0.",
    source="appendix B.3.7; section 5.5",
    setting="correlation loss, population gradient; the source argues about greedy training without running it",
    rule="(a) By enumeration of 10 signs, for k = 3 to 8 and L = 2, 3, 4 layers: the first layer's gradient is "
    "exactly 0 for k above 2^(L - 1), and not 0 otherwise. (b) One quadratic layer of width 10 with a readout: for 20 "
    "random settings of all its parameters the correlation of output and label, by enumeration, is exactly 0 for k = 3 "
    "to 8 and not for k = 1 and 2. Then the loss stays at chance wherever training leads. (c) The correlation is 0 for "
    "the same k if the layer's inputs are the outputs of another such layer, which is what greedy training goes on to. "
    "The claim holds in part for the parts that hold. Reported, not judged: one layer trained by SGD on the hinge "
    "loss, and how many errors are within 1.5% of 50%.",
    revised="With 20 trials, k = 4 was undecided (13 at chance); with 80, on other seeds, it still was. The error rate "
    "was 5%; then the total was 2%, with the same verdict. Part (b) asked for over 80% of the SGD runs within 1.5% of "
    "50%. With 200 and 800 trials on new seeds both k were undecided (170 and 657): the noise of minibatches moves the "
    "weights, and errors to either side of 50%. The source argues about the population gradient of the correlation "
    "loss, under which nothing is random, so (b) is now computed exactly, and the runs are reported. The claim was "
    "undecided, and then held. But only first layers were judged; a second layer on a frozen first one is a polynomial "
    "of degree four, so it can be correlated with parities of three and four signs. With (c) the claim holds in part.",
)
def greedy(tables: Tables) -> Verdict:
    needs = "first gradients and correlations by enumeration, and trials of two layers at (10, 3) and (10, 4)"
    found = table(tables, "signals", needs).set_index(["widths", "k"])["signal"]
    degrees = {"(10,)": 2, "(2, 1)": 4, "(10, 10, 1)": 8}
    wrong = [
        f"{widths}, k = {k}"
        for widths, most in degrees.items()
        for k in range(3, 9)
        if (found[widths, k] > 0) != (k <= most)
    ]
    count = 6 * len(degrees)
    because = f"{count - len(wrong)} of {count} first gradients are 0 exactly where k exceeds 2^(L - 1)"
    parts = {"gradients": decided(not wrong, bool(wrong), because, {"otherwise": wrong}, 0.0, "")}
    sums = table(tables, "correlations", needs).set_index("k")
    if "on_frozen" not in sums:
        raise InsufficientData(needs)
    for name, column in (("one layer", "largest"), ("a layer on a frozen one", "on_frozen")):
        silent = [k for k in sums.index if sums[column][k] == 0]
        because = f"output and label are uncorrelated for k = {', '.join(map(str, silent))}"
        if heard := [str(k) for k in range(3, 9) if k not in silent]:
            because += f", and correlated for k = {', '.join(heard)}"
        numbers = {"correlated": [k for k in sums.index if k not in silent]}
        parts[name] = decided(silent == list(range(3, 9)), silent != list(range(3, 9)), because, numbers, 0.0, "")
    rows = table(tables, "errors", needs, task__n=10, task__k=[3, 4])
    rows = rows[rows["model.widths"].map(str) == "(10,)"]
    chance = (rows["test_error"] - 0.5).abs() <= 0.015
    counts = {f"k = {k}": [int(near.sum()), len(near)] for k, near in chance.groupby(rows["task.k"])}
    reported = ", ".join(f"{hits} of {trials} at {k}" for k, (hits, trials) in counts.items())
    return combine(parts).but(because=f"trained by SGD, at chance: {reported}", at_chance=counts)


def _cells(
    tables: Tables, widths: str, degrees: tuple[int, ...], steps: int, convention: str, least: int, level: float
) -> Verdict:
    """Decide whether all cells of some k and n = 10, 20, 30 are nearly always solved.

    ``level`` is the error rate of all cells together, and also of their pooled share.
    """
    counts = {}
    for n in SIZES:
        for k in degrees:
            cell = _cell(tables, widths, n, k, steps, convention, least)
            counts[f"({n}, {k})"] = cell["solved"], cell["trials"]
    failing = [name for name, count in counts.items() if share_limits(*count, level / len(counts))[1] < ALL_TEN]
    total = sum(solved for solved, _ in counts.values()), sum(trials for _, trials in counts.values())
    pooled, needed = total[0] / total[1], LEVEL ** (1 / (SEEDS * len(counts)))
    low, high = share_limits(*total, level)
    listed = ", ".join(f"{name}: {solved} of {trials}" for name, (solved, trials) in counts.items())
    because = f"solved {100 * pooled:.0f}% ({listed})"
    numbers = {"solved_of": counts, "failing": failing, "pooled": pooled, "pooled_limits": [low, high]}
    if not failing and high < needed:
        needs = f"each is learned, but by at most {100 * high:.0f}% of the networks, where all of ten were"
        return Verdict(IN_PART, because, numbers, 2 * level, needs)
    part = f"holds for all but {', '.join(failing)}" if failing and len(failing) < len(counts) else ""
    return decided(not failing and low > needed, bool(failing), because, numbers, 2 * level, "more trials", part=part)


def _cell(tables: Tables, widths: str, n: int, k: int, steps: int, convention: str, least: int) -> dict[str, Any]:
    needs = f"{least} trials with hidden widths {widths} at ({n}, {k}), {steps} steps, {convention}: the part scale"
    where = {"task__n": n, "task__k": k, "training__steps": steps, "model__output_bias": True}
    rows = table(tables, "table", needs, **where, model__init__convention=convention)
    rows = rows[rows["model.widths"].map(str) == widths]
    if len(rows) != 1 or rows["trials"].iloc[0] < least:
        raise InsufficientData(needs)
    cell = rows.iloc[0]
    return {"solved": int(cell["solved"]), "trials": int(cell["trials"]), "test_error": float(cell["test_error"])}


CLAIMS = (three_layers, four_layers, sanity, greedy)
