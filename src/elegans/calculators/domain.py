"""Requirements of theorems on their arguments, and the types of numbers that calculators accept."""

import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, Literal

from elegans.arguments import AtMost as AtMost, Seed as Seed
from elegans.errors import TheoryError, shown

if TYPE_CHECKING:
    import numpy as np

Number = int | float | Fraction
"""The types of an exact number: a float is taken as the dyadic rational that it stores."""


Binomial = Annotated[int, AtMost(100_000)]
"""A whole number for exact binomial coefficients, which have about as many binary digits."""
Listed = Annotated[int, AtMost(1_000_000)]
"""A whole number of terms to be listed or added."""
Side = Annotated[int, AtMost(2_000)]
"""The side of a matrix, or of a triangle of binomial coefficients."""


LONGEST = 10**6
"""Maximum number of binary digits of an exact number."""


class WithInfinity:
    """Marks numbers that may be infinite, in an annotation."""


Extended = Annotated[float, WithInfinity]
"""A number that may be infinite."""


Form = Literal["corrected", "printed"]
"""Whether a formula is the corrected one, or the one printed in the source."""


def require(condition: bool, rule: str, **values: object) -> None:
    """Refuse arguments that break a hypothesis.

    Args:
        condition: whether the hypothesis holds.
        rule: the hypothesis and its source, as in ``k must be even (Theorem 4)``.
        **values: the offending values, by name.

    Raises:
        TheoryError: it does not.
    """
    if not condition:
        raise TheoryError(f"{rule}: " + ", ".join(f"{name}={shown(value, str)}" for name, value in values.items()))


def require_form(form: str, allowed: Iterable[str] = ("corrected", "printed")) -> None:
    """Refuse a form that a formula does not have."""
    require(form in allowed, f"form must be one of {', '.join(allowed)}", form=form)


def require_probability(name: str, value: Number, source: str) -> None:
    """Refuse a value that does not lie strictly between 0 and 1."""
    require(0 < value < 1, f"{name} must lie between 0 and 1 ({source})", **{name: value})


def require_positive(source: str, **values: Number) -> None:
    """Refuse values that are not above 0."""
    for name, value in values.items():
        require(value > 0, f"{name} must be positive ({source})", **{name: value})


def require_parity(n: int, k: int, source: str) -> None:
    """Refuse n and k without an (n, k)-parity."""
    require(k >= 1, f"k must be at least 1 ({source})", k=k)
    require(k <= n, f"k must be at most n ({source})", k=k, n=n)


def require_over_sparse(k: int, s: int, source: str, n: int | None = None) -> None:
    """Refuse sizes of neurons that are not over-sparse: k even, s odd, k < s, and s at most n if n is given."""
    require(k >= 2, f"k must be at least 2 ({source})", k=k)
    require(k % 2 == 0, f"k must be even ({source})", k=k)
    require(s % 2 == 1, f"s must be odd ({source})", s=s)
    require(s > k, f"s must be above k ({source})", s=s, k=k)
    require(n is None or s <= n, f"s must be at most n ({source})", s=s, n=n)


def require_under_sparse(n: int, k: int, s: int, source: str) -> None:
    """Refuse sizes of neurons that are not under-sparse: k and s even, 0 <= s < k <= n."""
    require_parity(n, k, source)
    require(k % 2 == 0, f"k must be even ({source})", k=k)
    require(s % 2 == 0, f"s must be even ({source})", s=s)
    require(s >= 0, f"s must be at least 0 ({source})", s=s)
    require(s < k, f"s must be below k ({source})", s=s, k=k)


def coordinates(name: str, members: Iterable[int], n: int) -> frozenset[int]:
    """Return a set of coordinates, refusing repetitions and coordinates outside 0..n-1."""
    listed = list(members)
    chosen = frozenset(listed)
    require(len(chosen) == len(listed), f"{name} must hold distinct coordinates", **{name: listed})
    require(all(0 <= coordinate < n for coordinate in chosen), f"{name} must lie in 0..n-1", **{name: listed}, n=n)
    return chosen


def whole_array(name: str, values: Any) -> "np.ndarray":
    """Return an array of whole numbers as int64, refusing all others."""
    import numpy as np  # here, because quick commands read annotations of calculators without it

    array = np.asarray(values)
    fractions = array[array % 1 != 0]
    if fractions.size:
        raise TheoryError(f"{name} must be whole numbers: {name}={fractions[0]}")
    return array.astype(np.int64)


def binomial(n: int, k: int) -> int:
    """Return C(n, k), refusing numbers that are too long to compute with."""
    digits = max(0, min(k, n - k)) * int(n).bit_length()
    require(digits <= LONGEST, "C(n, k) must have at most a million binary digits", n=n, k=k)
    return math.comb(n, k)


def power(base: int | Fraction, exponent: int) -> Fraction:
    """Return an exact power, refusing numbers that are too long to compute with."""
    exact = Fraction(base)
    digits = max(exact.numerator.bit_length(), exact.denominator.bit_length()) * abs(exponent)
    require(digits <= LONGEST, "a power must have at most a million binary digits", base=exact, exponent=exponent)
    return exact**exponent


def least_count(enough: Callable[[int], bool], low: int) -> int:
    """Return the smallest number above ``low`` that is enough, for a monotone condition."""
    high = 2 * low
    while not enough(high):
        require(high < 2**1000, "the smallest number that is enough must be below 2^1000", enough_above=high)
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
