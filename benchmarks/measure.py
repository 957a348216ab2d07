"""The measurements of all benchmarks: clocks, alternating contenders and spreads."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

PAUSE = 0.02
"""Seconds between two contenders, for the threads of the first to go to sleep."""

Work = Callable[[], object]


def seconds(work: Work) -> float:
    """Return how long some work takes."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def in_turns(contenders: Mapping[str, Callable[[], float]], repetitions: int) -> dict[str, list[float]]:
    """Measure contenders alternately, so that other load on the machine affects all of them.

    Args:
        contenders: functions that measure one contender and return its figure, by name.
        repetitions: the number of rounds, each of which begins with another contender.

    Returns:
        One figure per round, by name.
    """
    figures: dict[str, list[float]] = {name: [] for name in contenders}
    names = list(contenders)
    for repetition in range(repetitions):
        first = repetition % len(names)
        for name in names[first:] + names[:first]:
            time.sleep(PAUSE)
            figures[name].append(contenders[name]())
    return figures


def seconds_side_by_side(works: Sequence[Work]) -> float:
    """Return the wall time of functions that run at once, each in its own thread."""
    with ThreadPoolExecutor(len(works)) as pool:
        list(pool.map(time.sleep, [0.001] * len(works)))
        return seconds(lambda: list(pool.map(lambda work: work(), works)))


def ratios(above: Sequence[float], below: Sequence[float]) -> list[float]:
    """Return the ratio of each pair of figures from the same round."""
    return [a / b for a, b in zip(above, below, strict=True)]


def best(figures: Mapping[str, Sequence[float]], names: Sequence[str]) -> str:
    """Return which of some contenders has the smallest median."""
    return min(names, key=lambda name: statistics.median(figures[name]))


def spread(values: Sequence[float], digits: int = 3) -> str:
    """Return median, smallest and largest as text: ``5.21 (5.02 to 5.9)``."""
    middle, low, high = (short(value, digits) for value in (statistics.median(values), min(values), max(values)))
    return f"{middle} ({low} to {high})"


def short(value: float, digits: int = 3) -> str:
    """Return a number with a given number of digits, never as a power of ten."""
    text = f"{float(f'{value:.{digits}g}'):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
