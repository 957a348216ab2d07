"""The claims on luck: times to solve are not those of a random search; what they depend on (figure 5.2)."""

import numpy as np

from elegans.analysis import variance_components
from elegans.experiments import InsufficientData, Tables, Verdict, claim
from elegans.experiments.claims import HOLDS, IN_PART
from elegans.experiments.rules import at_least, by_interval, combine, decided, table

MANY, PUBLISHED = 10_000, 1_000_000
"""The number of trials that every network must have, and the number that one of them must have."""
COPIES = 100
"""The number r of independent copies of which the fastest is taken."""
EARLY, GAIN, HEAVY, INITIAL = 0.1, 5.0, 3.0, 0.5
"""Thresholds, ours: of fastest over median, of the fastest copy over median / r, of the tail's ratio, of the share."""
MEASURED = ("i", "ii", "iv", "xiv", "xv")
RESAMPLES = 400

SETTING = "10^6 trials; silent: network, (n, k), batch size, learning rate. Ours: (20, 3), (xv), (xiv) and (ii)"


@claim(
    id="progress/no-early-luck",
    statement="Over very many trials none solves the problem in much less than the median time, whereas a memoryless "
    "search would have most of its mass at time 0; so independent copies do not divide the time.",
    source="figure 5.2 (left); sections 5.3.2 and 5.5",
    setting=SETTING,
    rule="Holds for a network if its fastest of at least 10^4 trials takes over a tenth of the median (ours), and "
    "the expected fastest of 100 copies takes over 5 times median / 100 (ours; 1.4 without memory; 99% bootstrap "
    "interval). One network must have 10^6 trials. Without memory 6.7% of trials are below a tenth.",
)
def early_luck(tables: Tables) -> Verdict:
    groups = _samples(tables)
    if max(int(counts.sum()) for _, counts in groups.values()) < PUBLISHED:
        raise InsufficientData("10^6 trials of one network: the paper scale")
    parts = {}
    for name, (steps, counts) in groups.items():
        fastest = float(steps[0]) / _quantile(steps, counts, 0.5)
        trials = int(counts.sum())
        chance = float(np.exp(trials * np.log(0.5) * EARLY))
        because = f"the fastest of {trials:,} trials took {fastest:.3g} of the median; claimed: above {EARLY:g}"
        numbers = {"fastest_over_median": fastest, "trials": trials, "expected_earlier": 0.067 * trials}
        parts[f"{name}, fastest"] = decided(fastest > EARLY, fastest <= EARLY, because, numbers, chance, "")
        low, high = np.quantile([_gain(steps, again) for again in _resampled(counts)], [0.005, 0.995])
        what = f"the expected fastest of {COPIES} copies over median / {COPIES}"
        gain = _gain(steps, counts)
        parts[f"{name}, copies"] = by_interval(what, gain, (low, high), above=GAIN, error_rate=0.005)
    return combine(parts)


@claim(
    id="progress/heavy-upper-tail",
    statement="The distribution of times to solve has a heavy upper tail.",
    source="figure 5.2 (left)",
    setting=SETTING,
    rule="(q99 - q50) / (q50 - q1) above 3 (ours; 1 if symmetric, 5.7 if exponential), 98% bootstrap interval over "
    "at least 10^4 trials per network; unsolved trials are infinite.",
)
def heavy_tail(tables: Tables) -> Verdict:
    parts = {}
    for name, (steps, counts) in _samples(tables).items():
        low, high = np.quantile([_tail(steps, again) for again in _resampled(counts)], [0.01, 0.99])
        tail = _tail(steps, counts)
        parts[name] = by_interval("(q99 - q50) / (q50 - q1)", tail, (low, high), above=HEAVY, error_rate=0.01)
    return combine(parts)


@claim(
    id="progress/luck-is-in-initialisation",
    statement="Times depend on the random initial weights far more than on the examples drawn.",
    source="figure 5.2 (centre); section 5.3.2",
    setting="B = 128, rate 0.01; silent: network, (n, k), numbers of initial values and streams. Ours: (30, 3)",
    rule="The share of the variance of log t between initial values, 98% F interval, above 1/2 (ours) for (i), "
    "(ii), (iv), (xiv) and (xv), 40 initial values with 10 streams each, 400 of (iv); in part where for some of "
    "them.",
    revised="A run with 40 initial values of each network left (iv) undecided, between 0.30 and 0.60. It has 400 "
    "since then, none of them among the 40; the limit is the same. That (iv) stays undecided, at one half, no "
    "longer leaves the whole claim undecided: the verdict is in part where some networks hold, as this text said "
    "from the start.",
)
def initial_weights(tables: Tables) -> Verdict:
    needs = f"40 initial values with 10 streams each of ({'), ('.join(MEASURED)}), batches of 128, rate 0.01"
    parts = {}
    for name in MEASURED:
        where = {"training__batch_size": 128, "training__learning_rate": 0.01}
        rows = table(tables, "inits", needs, configuration=name, **where)
        groups = [own["steps"].dropna().to_numpy(float) for _, own in rows.groupby("init")]
        full = [np.log(own) for own in groups if len(own) >= 2]
        if len(groups) < 40 or len(rows) < 400:
            raise InsufficientData(needs)
        if sum(map(len, full)) < 0.9 * len(rows):
            raise InsufficientData(f"more steps: over a tenth of the trials of ({name}) were not solved")
        spread = variance_components(full, confidence=0.98)
        share, low, high = (ratio / (1 + ratio) for ratio in (spread.ratio, spread.low, spread.high))
        what = "the share of the variance of log t that lies between initial values"
        parts[f"({name})"] = by_interval(what, share, (low, high), above=INITIAL, error_rate=0.01)
    whole = combine(parts)
    holding = [name for name, part in parts.items() if part.verdict == HOLDS]
    if 0 < len(holding) < len(parts):
        return whole.but(IN_PART, needs=f"holds for {', '.join(holding)}")
    return whole


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
