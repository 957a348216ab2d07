"""The claims on the space of settings in which SGD learns sparse parities (section 5.3.1, figures B.3 to B.5)."""

from itertools import combinations

import numpy as np
import pandas as pd

from elegans.experiments import InsufficientData, Tables, Verdict, claim
from elegans.experiments.claims import FAILS, HOLDS, UNDECIDED
from elegans.experiments.rules import LEVEL, at_least, combine, decided, holm, share_limits, table
from elegans.studies.hidden_progress.rules import NEVER, ratio_interval

CELL = ["configuration", "task.k", "task.n", "training.batch_size", "model.init", "training.loss"]
RATE, STEPS = "training.learning_rate", 100_000
FIRST, LEAST, FIFTH = 25, 5, 0.2
"""The number of trials per learning rate, how many of them must be solved, and the share that this is."""
ENOUGH, REFUTED = 299, 0.05
UNCLEAR = 0.05
"""The share of lines or cells that may lie at a threshold, unclear, where none contradicts a claim (our choice)."""
NETWORKS = ("i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix", "x", "xi", "xii", "xiii", "xiv", "xv")
PART = "the part scale"

SETTING = (
    "n = 10, 20, 30, k = 2, 3, 4, B = 1, 2, 4, ..., 1024, uniform, Gaussian and Bernoulli initialisation, hinge, "
    "square and cross-entropy loss, learning rates 0.001 to 1, 25 trials, 10^5 steps, initial scales by the 'Xavier' "
    "and 'Kaiming' conventions, for biases too; not stated: which of their scales, which biases are trained"
)


@claim(
    id="progress/robust-space",
    statement="In every combination of size, sparsity, batch size, initialisation, loss and network of the main "
    "list, some learning rate of a coarse grid lets SGD solve the parity in at least a fifth of the trials.",
    source="Empirical Finding 5.1; section 5.3.1",
    setting=SETTING,
    rule="A cell passes if 5 of 25 trials are solved at some learning rate. A cell that does not pass gets 100 fresh "
    "trials at its best rate, and is refuted if significantly less than a fifth of these are solved (Holm, 2%). Holds "
    "if none of 299 random cells or more, of batches of up to 64, is refuted or unclear; fails if over 5% of all cells "
    "are refuted (our choice, exact limit at 2%); holds in part if some are refuted.",
    revised="The error rate is 2%, not 5%, and the claim now fails only if a limit, not the estimate, of the share of "
    "refuted cells exceeds 5%. The verdict is the same.",
)
def all_cells(tables: Tables) -> Verdict:
    times = _published(tables, NETWORKS)
    passed, refuted, unclear = _cells(times[times["drawn"]], LEVEL)
    count = len(passed) + len(refuted) + len(unclear)
    if count < ENOUGH:
        raise InsufficientData(f"{ENOUGH} cells with 25 trials and 10^5 steps: {PART}")
    numbers = {"cells": count, "passed": len(passed), "refuted": refuted, "unclear": unclear}
    because = (
        f"{len(passed)} of {count} cells pass, {len(refuted)} are refuted by 100 fresh trials, {len(unclear)} unclear"
    )
    many = share_limits(len(refuted), count)[0] > REFUTED
    part = "holds for all but the refuted cells, of the numbers" if refuted and not many else ""
    needs = "fresh trials of unclear cells"
    return decided(not refuted and not unclear, many, because, numbers, LEVEL, needs, part=part)


@claim(
    id="progress/robust-space-time",
    statement="Where SGD succeeds it does so within c n^(alpha k) steps, with small constants.",
    source="Empirical Finding 5.1; section 5.3.1; figures B.3 and B.5",
    setting=f"hinge, uniform, best learning rate, 10th percentiles over n = 10, 20, 30: {SETTING}, c and alpha",
    rule="In every line the smallest exponent a with t(n) <= t(10) (n - 9)^a, at the best learning rate tried, is "
    "below k (our choice), by bootstrap limits at 2% over the lines. A line is unclear if its limits contain k, or if "
    "a tenth of its trials is not solved; up to 5% of the lines may be unclear. Fails if the exponent is k or more in "
    "over 5% of the lines.",
    revised="At first, lines had 25 trials per cell, and 2 of 90 lines were unclear, since so small a resample may "
    "have no solved trial among its first tenth. Now they have 125 trials, including the first 25. Limits got an error "
    "rate of 2% over all lines, not 2.5% for each, and the claim, which had held, became undecided, since (ix) and (x) "
    "at k = 4, B = 1 may leave a tenth of the trials unsolved. No line was allowed to be unclear; now 5% are, as no "
    "rule should hang on the one case of many that lies at a threshold. Since the trials had been seen when the rule "
    "changed, new seeds judge it.",
)
def small_exponents(tables: Tables) -> Verdict:
    times = _published(tables, NETWORKS)
    times = times[(times["training.loss"] == "hinge") & (times["model.init"] == "dense")]
    steeper, unclear, alphas, lacking = [], [], {}, []
    lines = times.groupby(["configuration", "task.k", "training.batch_size"])
    level = LEVEL / max(1, sum(set(line["task.n"]) == {10, 20, 30} for _, line in lines))
    for _, line in lines:
        first = line.iloc[0]
        k = int(first["task.k"])
        name = f"({first['configuration']}), k = {k}, B = {first['training.batch_size']}"
        by_size = {n: _best(line[line["task.n"] == n]) for n in sorted(set(line["task.n"]))}
        if set(by_size) != {10, 20, 30}:
            continue
        ratios = [ratio_interval(by_size[n], by_size[10], share=0.1, level=level / 2) for n in (20, 30)]
        if max(ratio for ratio, _, _ in ratios) > 1e100:
            lacking.append(name)
            continue
        exponents = np.log(ratios) / np.log([[20 - 9], [30 - 9]])
        alpha, low, high = exponents.max(axis=0, initial=0.0).tolist()
        alphas[name] = [alpha, low, high]
        steeper += [name] if low >= k else []
        unclear += [name] if low < k <= high else []
    at_least(3 * len(NETWORKS), alphas, f"lines over n = 10, 20, 30 of all networks and k: {PART}")
    largest = max(alphas, key=lambda name: alphas[name][0])
    because = (
        f"of {len(alphas)} lines {len(steeper) or 'none'} have an exponent of k or more, and {len(unclear) or 'none'} "
        f"may; the largest is {alphas[largest][0]:.2f}, of {largest}"
    )
    if lacking:
        because += f"; a tenth of the trials is not solved in {len(lacking)} others"
    numbers = {"alpha": alphas, "not_solved": lacking}
    no = len(steeper) > 0.05 * len(alphas)
    open_lines = [*unclear, *lacking]
    few = len(open_lines) <= UNCLEAR * (len(alphas) + len(lacking))
    needs = f"twice as many trials of {', '.join(open_lines)}" if open_lines else "more trials"
    return decided(not steeper and few, no, because, numbers, LEVEL, needs)


@claim(
    id="progress/large-batches-extremely-robust",
    statement="With sufficiently large batches nearly every run of the main settings converges.",
    source="figure B.4, caption",
    setting="n = 30, k = 2, 3, 4, B = 1 to 1024, hinge, uniform initialisation, best of four learning rates, 25 "
    "trials, 10^5 steps; not stated: which batch suffices. Our choice: 256",
    rule="Ten runs choose the learning rate, and fifteen others are judged. Holds if over 95% of all runs are solved "
    "(exact limit at 1%) and no cell has significantly less than 80% solved (our choice, 1% over 45 cells). Holds in "
    "part for the other cells if under half of the cells have; fails if half or more have; undecided otherwise.",
    revised="The error rate was 5%; now the total is 2%. The verdict is the same.",
)
def large_batches(tables: Tables) -> Verdict:
    times = _published(tables, NETWORKS)
    plain = (times["training.loss"] == "hinge") & (times["model.init"] == "dense") & (times["task.n"] == 30)
    times = times[plain & (times["training.batch_size"] == 256)]
    counts = {}
    for (name, k), cell in times.groupby(["configuration", "task.k"]):
        solved = {rate: trials["solved_at"].notna() for rate, trials in cell.sort_values("seed").groupby(RATE)}
        best = max(solved, key=lambda rate: solved[rate].iloc[:10].sum())  # the smallest of equal ones
        judged = solved[best].iloc[10:FIRST]
        counts[f"({name}), k = {k}"] = int(judged.sum()), len(judged)
    if len(counts) < 3 * len(NETWORKS) or min(trials for _, trials in counts.values()) < 15:
        raise InsufficientData(f"25 trials of all networks at n = 30, k = 2, 3, 4, B = 256: {PART}")
    level = LEVEL / 2 / len(counts)
    missing = [name for name, count in counts.items() if share_limits(*count, level)[1] < 0.8]
    hits, trials = (sum(numbers) for numbers in zip(*counts.values(), strict=True))
    low = share_limits(hits, trials, LEVEL / 2)[0]
    because = f"{hits} of {trials} runs solved (at least {low:.3f}); below 80%: {', '.join(missing) or 'no cell'}"
    numbers = {"solved_of": counts, "pooled_at_least": low, "below": missing}
    part = f"holds for all but {', '.join(missing)}" if 0 < len(missing) < len(counts) / 2 else ""
    return decided(low > 0.95 and not missing, bool(missing), because, numbers, LEVEL, "more trials", part=part)


@claim(
    id="progress/losses-interchangeable",
    statement="Hinge, square and cross-entropy loss seem interchangeable.",
    source="appendix B.4.1",
    setting="not stated. Our choice: (20, 3), B = 32, uniform initialisation, the best of seven learning rates or "
    "more. We read interchangeable as equally fast, and as often successful",
    rule="With --parts losses. A pair of losses is equivalent in a network if the shares solved are within 20 points, "
    "each at the learning rate that solves the most trials, and the medians within a factor of 2, each at the fastest "
    "learning rate (intervals at 2% over all pairs, 50 trials); it differs if one is beyond. Learning rates are at "
    "least five for each loss, each at most twice the one before, and reach from 0.001 to 1 where none solves a trial. "
    "A pair does not count as different if that rate of the worse loss is the smallest or the largest. Holds for the "
    "networks in which all pairs are equivalent, fails for the networks in which one differs, and holds in part if "
    "there are both.",
    revised="The claim failed if pairs differed in over a quarter of the networks, and then was undecided where they "
    "did, since two learning rates are too coarse a grid. Later the error rate of 5% became 2% in total, with the same "
    "verdict. Then there were seven learning rates, and each network was judged, on new seeds: four differed and "
    "eleven were undecided, and so was the claim. Medians were compared at the rate that solves the most trials, so "
    "one trial of 50 could make a loss many times as slow; and a loss that solves no trial was never different. The "
    "rule was changed after the tables had been seen; it then left these undecided, since the square loss solved no "
    "trial of (iii) and (xii) at their seven rates, and the smallest published rates were missing. With these rates, "
    "on new seeds, the claim holds for (xv), fails for four networks, and is open for ten.",
)
def same_losses(tables: Tables) -> Verdict:
    times = _published(tables, NETWORKS)
    times = times[(times["task.n"] == 20) & (times["task.k"] == 3) & (times["model.init"] == "dense")]
    times = times[times["training.batch_size"] == 32]
    parts = {}
    for name in NETWORKS:
        cells = {str(loss): cell for loss, cell in times[times["configuration"] == name].groupby("training.loss")}
        if len(cells) < 3 or not all(map(_finely, cells.values())):
            raise InsufficientData("50 trials with each loss at (20, 3), B = 32, at enough rates: --parts losses")
        pairs = [_compared(cells[one], cells[other]) for one, other in combinations(("hinge", "square", "logistic"), 2)]
        words = [word for word, _ in pairs]
        equal, differs, numbers = set(words) == {HOLDS}, FAILS in words, {"pairs": words}
        needs = " and ".join(dict.fromkeys(need for _, need in pairs if need))
        parts[f"({name})"] = decided(equal, differs, ", ".join(words), numbers, LEVEL / len(NETWORKS), needs)
    return combine(parts, LEVEL)


@claim(
    id="progress/starred-need-large-batches",
    statement="The barely sufficient networks (*i) and (*ii) give the same positive results only with batches of at "
    "least 16.",
    source="section 5.3.1",
    setting=f"{SETTING}; hinge here, with --networks starred, B = 1, 4, 8, 16 and 256, and without the transformer "
    "(*iii)",
    rule="For each network, no cell with B of 16 or more is refuted and up to 5% are unclear, as for "
    "progress/robust-space, and at each smaller batch, 1, 4 and 8, at least one cell is refuted (Holm, 0.25% for each "
    "network and part). If none is refuted, the batch is undecided, since n = 20 and smaller n at k = 4 are not run.",
    revised="The part on smaller batches failed for (*ii) because all cells passed, but there were only cells of k = "
    "2 and 3. This part was then undecided, and so was the claim, which had held in part; the total error rate is 2%, "
    "not 5% for each part. Now cells of k = 4 at n = 30, on other seeds, decide that part. The claim was still "
    "undecided, because one cell of 30, (*i) at (10, 3) and B = 256 from Gaussian weights, solves close to a fifth of "
    "its trials; 50 trials per cell on new seeds left one cell unclear too. No cell was allowed to be unclear; now 5% "
    "are. Since the trials of both runs had been seen when the rule changed, new seeds judge it. One refuted cell "
    "below 16 was enough, also at B = 1 alone, so the claim held although batches of 8 may suffice; now each smaller "
    "batch needs one, and the claim is undecided, with (*ii) refuted at B = 1 alone. The rule was changed after the "
    "tables had been seen.",
)
def large_batches_needed(tables: Tables) -> Verdict:
    times = _published(tables, ("*i", "*ii"))
    parts, level = {}, LEVEL / 8
    for name in ("*i", "*ii"):
        own = times[times["configuration"] == name]
        large = own["training.batch_size"] >= 16
        if not large.any() or large.all() or 30 not in set(own["task.n"]):
            raise InsufficientData("batch sizes below and above 16 at n = 10 and 30: --networks starred, part")
        batches = {f"at {batch}": rows for batch, rows in own[~large].groupby("training.batch_size")}
        for what, rows in {"from 16 on": own[large], **batches}.items():
            passed, refuted, unclear = _cells(rows, level)
            because = f"{len(passed)} cells pass, {len(refuted)} are refuted, {len(unclear)} unclear"
            numbers = {"passed": len(passed), "refuted": refuted, "unclear": unclear}
            suffice = not refuted and len(unclear) <= UNCLEAR * (len(passed) + len(unclear))
            yes, no = (suffice, bool(refuted)) if what == "from 16 on" else (bool(refuted), False)
            needs = "fresh trials of unclear cells" if unclear else "n = 20, and smaller n at k = 4"
            parts[f"({name}) {what}"] = decided(yes, no, because, numbers, level, needs)
    return combine(parts)


def _published(tables: Tables, networks: tuple[str, ...]) -> pd.DataFrame:
    """Return the times of trials of some networks that had 10^5 steps, where learning rates had 25 trials."""
    rows = table(tables, "times", f"trials of 10^5 steps: {PART}", training__steps=STEPS)
    rows = rows[rows["configuration"].isin(networks)]
    if rows.empty or rows.groupby([*CELL, RATE]).size().min() < FIRST:
        raise InsufficientData(f"25 trials per learning rate of ({'), ('.join(networks)}): {PART}")
    return rows


def _cells(times: pd.DataFrame, level: float) -> tuple[list[str], list[str], list[str]]:
    """Return which cells pass, which are refuted by fresh trials at an error rate, and which are unclear."""
    from scipy.stats import binom

    passed, retried, unclear = [], {}, []
    for key, cell in times.groupby(CELL):
        name = "({}) k={} n={} B={} {} {}".format(*key)
        solved = {rate: own.sort_values("seed")["solved_at"].notna() for rate, own in cell.groupby(RATE)}
        if any(own.iloc[:FIRST].sum() >= LEAST for own in solved.values()):
            passed.append(name)
            continue
        fresh = max((own.iloc[FIRST:] for own in solved.values()), key=len)
        if len(fresh) >= 4 * FIRST:
            retried[name] = float(binom.cdf(fresh.sum(), len(fresh), FIFTH))
        else:
            unclear.append(name)
    adjusted = dict(zip(retried, holm(list(retried.values())), strict=True))
    refuted = [name for name, p in adjusted.items() if p <= level]
    return passed, refuted, [*unclear, *(name for name, p in adjusted.items() if p > level)]


def _best(cell: pd.DataFrame) -> np.ndarray:
    """Return the times at the learning rate that solves the most trials, the fastest of these if tied."""
    times = [_times(trials) for _, trials in cell.groupby(RATE)]
    return max(times, key=lambda sample: ((sample < NEVER).mean(), -np.quantile(sample, 0.1, method="lower")))


def _times(trials: pd.DataFrame) -> np.ndarray:
    return trials["solved_at"].astype(float).fillna(NEVER).to_numpy()


def _finely(cell: pd.DataFrame) -> bool:
    """Return whether there are five learning rates or more of 50 trials, each at most twice the one before.

    If none of them solves a trial, they must also reach from the smallest to the largest published one.
    """
    sizes = cell.groupby(RATE).size()
    rates = sizes.index.to_numpy(float)
    wide = cell["solved_at"].notna().any() or (rates[0] < 0.00101 and rates[-1] > 0.99)
    return wide and len(rates) >= 5 and sizes.min() >= 50 and bool((rates[1:] <= 2.001 * rates[:-1]).all())


def _compared(*cells: pd.DataFrame) -> tuple[str, str]:
    """Return whether two losses are equivalent, within a factor of 2 and a fifth, or differ by more, and the need.

    Shares are compared at the learning rates that solve the most trials, medians at the fastest.
    """
    level = LEVEL / (6 * len(NETWORKS))
    grids = [{rate: _times(cell[cell[RATE] == rate]) for rate in sorted(set(cell[RATE]))} for cell in cells]
    surest = [max(grid, key=lambda rate: (_solved(grid[rate]), -np.median(grid[rate]))) for grid in grids]
    fastest = [min(grid, key=lambda rate: (np.median(grid[rate]), -_solved(grid[rate]))) for grid in grids]
    first, second = [(_solved(grid[rate]), len(grid[rate])) for grid, rate in zip(grids, surest, strict=True)]
    least, most = _gap(first, second, level)
    _, low, high = ratio_interval(grids[0][fastest[0]], grids[1][fastest[1]], level=level)
    worse = [
        (most < -FIFTH, grids[0], surest[0]),
        (least > FIFTH, grids[1], surest[1]),
        (low > 2, grids[0], fastest[0]),
        (high < 0.5, grids[1], fastest[1]),
    ]
    known = [
        min(grid) < rate < max(grid) or not any(map(_solved, grid.values())) for differs, grid, rate in worse if differs
    ]
    if known:
        return (FAILS, "") if any(known) else (UNDECIDED, "smaller or larger learning rates")
    equivalent = low > 0.5 and high < 2 and least > -FIFTH and most < FIFTH
    return (HOLDS, "") if equivalent else (UNDECIDED, "more trials at more closely spaced learning rates")


def _solved(times: np.ndarray) -> int:
    return int((times < NEVER).sum())


def _gap(first: tuple[int, int], second: tuple[int, int], level: float) -> tuple[float, float]:
    """Return two limits of the difference of two shares, each with the error rate ``level``.

    Source: Agresti and Caffo, "Simple and effective confidence intervals for proportions and differences of
    proportions" (2000).
    """
    from scipy.stats import norm

    shares = [(hits + 1) / (trials + 2) for hits, trials in (first, second)]
    variance = sum(
        share * (1 - share) / (trials + 2) for share, (_, trials) in zip(shares, (first, second), strict=True)
    )
    reach = float(norm.isf(level) * np.sqrt(variance))
    return shares[0] - shares[1] - reach, shares[0] - shares[1] + reach


CLAIMS = (all_cells, small_exponents, large_batches, same_losses, large_batches_needed)
