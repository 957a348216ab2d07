"""Every function of the analysis that takes numbers has one value for lists and for arrays of all types."""

import inspect

import numpy as np
import pytest
from number_types import alike, forms, undefined, value_or_refusal

from elegans import analysis
from elegans.errors import ElegansError

SIZES, TIMES = [1.0, 2.0, 4.0, 8.0], [3.0, 5.0, 8.0, 2.0, 9.0]
EXAMPLES = {
    "best_rate": {"rates": SIZES, "losses": [[3.0, 1.0, 2.0, 4.0], [3.0, 2.0, 1.0, 4.0]], "confidence": 0.75},
    "bootstrap_difference": {"first": TIMES, "second": [1.0, 2.0, 2.0], "confidence": 0.75},
    "bootstrap_interval": {"times": TIMES, "share": 0.5, "confidence": 0.75},
    "crossings": {"x": SIZES, "rates": [0.0, 0.25, 0.75, 1.0], "level": 0.5},
    "estimate_threshold": {"sizes": SIZES, "solved": [0, 2, 5, 8], "trials": [8, 8, 8, 8], "level": 0.75},
    "finite_or_none": {"number": 2.0},
    "grid_optimum": {"rates": SIZES, "losses": [3.0, 1.0, 2.0, 4.0]},
    "growth": {"sizes": SIZES, "values": [[2.0, 3.0, 5.0, 9.0], [1.0, 2.0, 4.0, 8.0]]},
    "holm": {"p_values": [0.25, 0.5, 0.125]},
    "kaplan_meier": {"times": TIMES, "censored_at": [9.0, 9.0, 9.0, 9.0, 9.0], "confidence": 0.75},
    "local_exponents": {"sizes": SIZES, "values": [1.0, 3.0, 9.0, 27.0]},
    "mean_interval": {"values": TIMES, "confidence": 0.75},
    "median": {"times": TIMES},
    "median_interval": {"times": TIMES, "confidence": 0.75},
    "newcombe": {"first": (3, 8), "second": (5, 8), "confidence": 0.75},
    "quantile": {"times": TIMES, "share": 0.25},
    "rank_correlation": {"predictors": TIMES, "outcome": [1.0, 2.0, 3.0, 4.0, 5.0]},
    "rank_correlation_interval": {"predictor": TIMES, "outcome": [1.0, 2.0, 3.0, 4.0, 5.0], "confidence": 0.75},
    "round_significant": {"number": 2.0},
    "threshold_draws": {"sizes": SIZES, "solved": [0, 2, 5, 8], "trials": [8, 8, 8, 8], "level": 0.75},
    "transfer_regret": {"losses": [3.0, 1.0, 2.0], "base": [1.0, 2.0, 4.0]},
    "variance_components": {"groups": [[1.0, 2.0, 4.0], [3.0, 5.0, 8.0]], "confidence": 0.75},
    "wilson": {"successes": [0, 2, 8], "trials": [8, 8, 8], "confidence": 0.75},
}
OTHERS = {
    *("describe", "error_courses", "grokking_delay", "grokking_delays", "grokking_summary", "monotonicity"),
    *("predictions", "proportion", "summarise_cells", "elbow", "scaling_exponent"),
}
"""Functions of tables, outcomes and numbers by size."""


ABSENT = {"first", "second", "times", "censored_at", "values", "rates", "losses", "base"}
"""Arguments in which NaN is a time that was not reached, a value without exponent or rate, or a diverged training."""


def called(name, given):
    function = getattr(analysis, name)
    if "generator" in inspect.signature(function).parameters:
        given = {"resamples": 50, **given, "generator": np.random.default_rng(0)}
    return value_or_refusal(function, given)


def test_every_function_of_numbers_has_an_example():
    functions = {name for name in dir(analysis) if inspect.isfunction(getattr(analysis, name))}
    assert functions == {*EXAMPLES} | OTHERS


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_value_is_the_same_for_a_list_and_all_types_of_numbers(name):
    given = EXAMPLES[name]
    expected = called(name, given)
    assert undefined(expected) == (name == "local_exponents")
    for key, value in given.items():
        pair = isinstance(value, tuple)
        for array in forms(value):
            if array.dtype != bool:
                other = tuple(array) if pair else array[()] if array.ndim == 0 else array
                actual = called(name, {**given, key: other})
                assert alike(expected, actual), f"{key}={other!r}: {expected} and {actual}"


@pytest.mark.parametrize("name", sorted({*EXAMPLES} - {"finite_or_none", "round_significant"}))
def test_what_is_not_a_number_is_refused_in_lists_and_arrays(name):
    given = EXAMPLES[name]
    for key, value in given.items():
        if key in ABSENT and name not in ("growth", "newcombe"):
            continue
        broken = np.array(value, float)
        broken.flat[-1] = np.nan
        for argument in (broken, broken.tolist(), broken.astype(np.longdouble)):
            assert called(name, {**given, key: argument}) is ElegansError, f"{key}={argument!r}"
