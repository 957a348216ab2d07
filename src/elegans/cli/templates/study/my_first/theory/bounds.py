"""Numbers from theory; a function with the lines ``Formula:`` and ``Source:`` in its docstring is a calculator."""

from math import comb


def my_first_majorities(n: int) -> int:
    """Return the number of sets of three signs among n: how many functions the network has to choose from.

    Formula: n (n - 1) (n - 2) / 6.
    Source: counting.

    Args:
        n: the number of signs.
    """
    return comb(n, 3)
