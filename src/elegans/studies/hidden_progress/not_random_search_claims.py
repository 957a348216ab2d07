"""Claims on luck: times to solve the task do not follow a random search; what they depend on (figure 5.2)."""

import math

import numpy as np
from scipy.stats import chi2

from elegans.analysis import VarianceComponents, variance_components
from elegans.experiments import InsufficientData, Tables, Verdict, claim
from elegans.experiments.claims import FAILS, UNDECIDED
from elegans.experiments.rules import LEVEL, at_least, by_interval, combine, table
from elegans.studies.hidden_progress.rules import by_bounds

MANY, PUBLISHED = 10_000, 1_000_000
"""The number of trials that every network must have, and the number that one of them must have."""
COPIES = 100
"""The number r of independent copies; the fastest of them counts."""
EARLY, LUCKY, HEAVY, INITIAL = 0.25, (0.001, 0.01), 3.0, 0.5
GAIN = 5.0
"""Thresholds, ours: of what counts as early, as a share of the median; of the share of early trials, to hold and to
fail; of the tail's ratio to hold; of the share of the variance; of the fastest copy over median / r."""
WITHIN = 0.25
"""The share of the variance below which times depend on the examples instead (ours)."""
CONCENTRATED, SCATTERED = 0.35, 0.7
"""The standard deviations of log t given the weights below which times are concentrated, and above which not (ours)."""
MEASURED = ("i", "ii", "iv", "xiv", "xv")
LOOKS = 4
"""How often the shares are judged: on 40, 400, 4000 and 16,000 initial values of (iv)."""
RESAMPLES = 4000

SETTING = (
    "10^6 trials; not stated: network, (n, k), batch size, learning rate. Our choice: (20, 3), (xv), (xiv) and (ii)"
)


@claim(
    id="progress/no-early-luck",
    statement="Over very many trials none takes much less than the median time, whereas the time of a memoryless "
    "search is most likely 0; so independent copies do not divide the time.",
    source="figure 5.2 (left); sections 5.3.2 and 5.5",
    setting=SETTING,
    rule="Holds for a network if under 0.1% of at least 10^4 trials take at most a quarter of the median (fails: over "
    "1%; without memory 16% do), and the expected fastest of 100 copies takes over 5 times a hundredth of the median "
    "(without memory 1.4 times; all our choices). Exact limits and bootstrap intervals, 2% over networks and parts. "
    "One network must have 10^6 trials.",
    revised="The first part asked whether the fastest trial takes over a tenth of the median, so one trial in "
    "10^6 decided it. It now asks for the share of such trials. A quarter of the median then replaced a tenth, "
    "below which no trial near an eighth of the median counts. The rule was changed after the tables had been seen. "
    "The claim held before and holds now.",
)
def early_luck(tables: Tables) -> Verdict:
    groups = _samples(tables)
    if max(int(counts.sum()) for _, counts in groups.values()) < PUBLISHED:
        raise InsufficientData("10^6 trials of one network: the paper scale")
    parts, level = {}, LEVEL / (2 * len(groups))
    for name, (steps, counts) in groups.items():
        middle, trials = _quantile(steps, counts, 0.5), int(counts.sum())
        early = int(counts[steps <= EARLY * middle].sum())
        late = {"holds_above": 1 - LUCKY[0], "fails_below": 1 - LUCKY[1], "level": level}
        share = by_bounds("trials that take over a quarter of the median", trials - early, trials, **late)
        fastest = float(steps[0]) / middle
        because = f"the fastest took {fastest:.3g} of it"
        parts[f"{name}, early"] = share.but(because=because, fastest_over_median=fastest)
        low, high = np.quantile([_gain(steps, again) for again in _resampled(counts)], [level, 1 - level])
        what = f"the expected fastest of {COPIES} copies over median / {COPIES}"
        gain = _gain(steps, counts)
        parts[f"{name}, copies"] = by_interval(what, gain, (low, high), above=GAIN, error_rate=level)
    return combine(parts)


@claim(
    id="progress/heavy-upper-tail",
    statement="Times to solve have a heavy upper tail.",
    source="figure 5.2 (left)",
    setting=f"{SETTING}. (ii) has width 100, and the source says that a large number of neurons mitigates the "
    "upper tail (B.3.4)",
    rule="The ratio (q99 - q50) / (q50 - q1) is above 3 to hold, below it to fail (our choice; it is 1 for a symmetric "
    "distribution and 5.7 for an exponential); by bootstrap limits at 2% over the networks, with at least 10^4 trials "
    "of each. Unsolved trials are infinite.",
    revised="First the error rate was 1% for each of three networks, not 2% in all; the verdict was the same. A ratio "
    "failed below 3, and the claim held in part: (ii) has 1.57. Then a ratio failed below 1 only, since an "
    "upper tail of twice the lower one is not light, and the claim was undecided, although the limits of 1.57 "
    "are 1.48 and 1.72. Now it fails below 3 again, on the same tables, and the claim holds in part again.",
)
def heavy_tail(tables: Tables) -> Verdict:
    samples, parts = _samples(tables), {}
    level = LEVEL / len(samples)
    for name, (steps, counts) in samples.items():
        low, high = np.quantile([_tail(steps, again) for again in _resampled(counts)], [level, 1 - level])
        tail = _tail(steps, counts)
        parts[name] = by_interval("(q99 - q50) / (q50 - q1)", tail, (low, high), above=HEAVY, error_rate=level)
    return combine(parts)


@claim(
    id="progress/luck-is-in-initialisation",
    statement="Times depend heavily on the random initial weights rather than on the examples drawn, and are "
    "concentrated given the weights.",
    source="figure 5.2 (centre); section 5.3.2",
    setting="B = 128, rate 0.01; not stated: network, (n, k), numbers of initial values and of streams. Our choice: "
    "(30, 3)",
    rule="The share of the variance of log t that lies between initial weights, for (i), (ii), (iv), (xiv) and (xv), "
    "from 40 initial weights with 10 streams each, for (iv) from 400, 4000 others at the third look and 16,000 others "
    "at the fourth. A network "
    "holds if it is above 1/2 and fails if it is below 1/4. Times are concentrated if the standard deviation of log t "
    "given the weights is below 0.35, and not if it is above 0.7 (all our choices; without memory it is 1.28). The "
    "claim holds, or fails, if all networks do in both parts, and holds in part if some hold and others fail. F limits "
    "and chi-square limits, 2% over networks, parts and four looks.",
    revised="A run with 40 initial values of each network left (iv) undecided, between 0.30 and 0.60. Now (iv) has "
    "400 others, with the same limit. It stays undecided, at one half, but no longer leaves the whole claim "
    "undecided: the verdict is in part if some networks hold, as this text said from the start. A share must now be "
    "below 1/4 to fail; before, 1/2 was the limit of both verdicts. The total error rate is 2%, not 5%. The statement "
    "said 'far more', which the source does not. The claim held in part before and after that. It held in part "
    "though no network failed; a network that is open now leaves the claim undecided: (iv), between 0.47 and 0.58. "
    "The rule did not judge whether times are concentrated; the part was added after the tables had been seen. The "
    "verdict is the same. A third look, at 4000 other initial values of (iv), was then declared, and left it at 0.519 "
    "(0.499 to 0.54). A fourth and last look, at 16,000 others, was declared after that, and left it at 0.510 "
    "(0.4997 to 0.521); the four share the error rate. So the claim stays undecided: the share is close to the limit.",
)
def initial_weights(tables: Tables) -> Verdict:
    needs = f"40 initial values with 10 streams each of ({'), ('.join(MEASURED)}), batches of 128, rate 0.01"
    parts, level = {}, LEVEL / (2 * LOOKS * len(MEASURED))
    for name in MEASURED:
        where = {"training__batch_size": 128, "training__learning_rate": 0.01}
        rows = table(tables, "inits", needs, configuration=name, **where)
        groups = [own["steps"].dropna().to_numpy(float) for _, own in rows.groupby("init")]
        full = [np.log(own) for own in groups if len(own) >= 2]
        if len(groups) < 40 or len(rows) < 400:
            raise InsufficientData(needs)
        if sum(map(len, full)) < 0.9 * len(rows):
            raise InsufficientData(f"more steps: over a tenth of the trials of ({name}) were not solved")
        spread = variance_components(full, confidence=1 - 2 * level)
        share, low, high = (ratio / (1 + ratio) for ratio in (spread.ratio, spread.low, spread.high))
        what = "the share of the variance of log t that lies between initial values"
        more = "a share that is not as close to one half"
        part = by_interval(what, share, (low, high), above=INITIAL, error_rate=level, needs=more)
        parts[f"({name})"] = part.but(UNDECIDED, needs=more) if part.verdict == FAILS and high > WITHIN else part
        parts[f"({name}), concentrated"] = _concentrated(spread, level)
    return combine(parts, error_rate=LEVEL)


def _concentrated(spread: VarianceComponents, level: float) -> Verdict:
    """Decide whether the standard deviation of log t within initial values is small, by chi-square limits."""
    freedom = spread.values - spread.groups
    low, high = (math.sqrt(spread.within * freedom / chi2.ppf(tail, freedom)) for tail in (1 - level, level))
    what, deviation = "the standard deviation of log t given the weights", math.sqrt(spread.within)
    part = by_interval(what, deviation, (low, high), below=CONCENTRATED, error_rate=level)
    return part.but(UNDECIDED, needs="more streams") if part.verdict == FAILS and low < SCATTERED else part


def _samples(tables: Tables) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return distinct times (unsolved: infinite) in order and their numbers of trials, of networks with enough."""
    needs = "10^4 trials of (xv), (xiv) and (ii) at (20, 3), checked at every step"
    rows = table(tables, "times", needs, task__n=20, task__k=3)
    samples = {}
    for name, times in rows.groupby("configuration", sort=False):
        times = times.assign(steps=times["steps"].fillna(np.inf)).sort_values("steps")
        if times["trials"].sum() >= MANY:
            samples[f"({name})"] = times["steps"].to_numpy(float), times["trials"].to_numpy(int)
    return at_least(2, samples, needs)


def _resampled(counts: np.ndarray) -> np.ndarray:
    return np.random.default_rng(0).multinomial(counts.sum(), counts / counts.sum(), size=RESAMPLES)


def _quantile(steps: np.ndarray, counts: np.ndarray, share: float) -> float:
    return float(steps[np.searchsorted(np.cumsum(counts), share * counts.sum())])


def _gain(steps: np.ndarray, counts: np.ndarray) -> float:
    """Return the expected fastest of some copies drawn with replacement, over the median divided by their number."""
    beyond = 1 - np.cumsum(counts) / counts.sum()
    share = -np.diff(np.concatenate([[1.0], beyond.clip(0)]) ** COPIES)
    finite = share > 0
    return float(steps[finite] @ share[finite]) / (_quantile(steps, counts, 0.5) / COPIES)


def _tail(steps: np.ndarray, counts: np.ndarray) -> float:
    low, middle, high = (_quantile(steps, counts, share) for share in (0.01, 0.5, 0.99))
    return (high - middle) / (middle - low)


CLAIMS = (early_luck, heavy_tail, initial_weights)
