"""Functions of numbers give the same for lists and for arrays of all types that can hold them."""

from functools import partial

import numpy as np
import pytest
from number_types import alike, forms, value_or_refusal

import elegans as el
from elegans import analysis, certificates, groups
from elegans.errors import ElegansError

OUTCOME = el.train(
    el.Trial(
        task=el.SparseParity(n=6, k=2), regime=el.Sample(64), model=el.MLP(width=16), training=el.SGD(steps=5), seed=0
    )
)


def drawn(function, **given):
    return function(**given, generator=np.random.default_rng(0), resamples=50)


CALLS = {
    "wilson": (analysis.wilson, {"successes": [0, 100, 127], "trials": [127, 127, 127]}),
    "median": (analysis.median, {"times": [127, 126, 100, 120]}),
    "median_interval": (analysis.median_interval, {"times": [3, 1, 2, 4, 5, 6, 7]}),
    "quantile": (partial(analysis.quantile, share=0.5), {"times": [[3, 1], [2, 5]]}),
    "holm": (analysis.holm, {"p_values": [0, 1, 1]}),
    "holm of shares": (analysis.holm, {"p_values": [0.25, 0.0, 0.5]}),
    "crossings": (analysis.crossings, {"x": [1, 2, 3], "rates": [0, 1, 0]}),
    "variance_components": (analysis.variance_components, {"groups": [[1, 2], [3, 5], [4, 4]]}),
    "kaplan_meier": (analysis.kaplan_meier, {"times": [1, 2, 3, 4]}),
    "local_exponents": (analysis.local_exponents, {"sizes": [1, 2, 4, 8], "values": [1, 4, 16, 127]}),
    "growth": (analysis.growth, {"sizes": [1, 2, 4], "values": [[1, 2, 4], [1, 3, 9]]}),
    "rank_correlation": (analysis.rank_correlation, {"predictors": [0, 1, 1, 2], "outcome": [0, 1, 2, 3]}),
    "describe": (analysis.describe, {"values": [1, 120, 127]}),
    "estimate_threshold": (analysis.estimate_threshold, {"sizes": [1, 2, 4], "solved": [0, 50, 99], "trials": 100}),
    "threshold_draws": (
        partial(drawn, analysis.threshold_draws),
        {"sizes": [1, 2, 4], "solved": [0, 5, 9], "trials": [10, 10, 10]},
    ),
    "bootstrap_interval": (partial(drawn, analysis.bootstrap_interval), {"times": [1, 2, 3, 4]}),
    "bootstrap_difference": (
        partial(drawn, analysis.bootstrap_difference),
        {"first": [1, 2, 3], "second": [0, 1, 1, 1]},
    ),
    "rank_correlation_interval": (
        partial(drawn, analysis.rank_correlation_interval),
        {"predictor": [0, 1, 1, 2, 5], "outcome": [0, 1, 2, 3, 3]},
    ),
    "newcombe": (analysis.newcombe, {"first": [1, 4], "second": [3, 4]}),
    "coefficient": (certificates.spectrum(OUTCOME).coefficient, {"members": [0, 1]}),
    "certify": (lambda support: certificates.certify(OUTCOME, support=support).support, {"support": [0, 1]}),
    "network": (OUTCOME.network, {"x": [[1, -1, 1, 1, -1, 1], [1, 1, 1, 1, 1, 1]]}),
    "from_table": (lambda table: groups.Group.from_table(table).table, {"table": [[0, 1], [1, 0]]}),
}


@pytest.mark.parametrize("name", CALLS)
def test_lists_and_arrays_of_all_types_have_the_same_value(name):
    function, given = CALLS[name]
    expected = function(**given)
    for key, argument in given.items():
        for form in forms(argument):
            listed = expected if form.dtype != bool else value_or_refusal(function, {**given, key: form.tolist()})
            actual = value_or_refusal(function, {**given, key: form})
            assert alike(listed, actual), f"{key} of {form.dtype}: {listed} and {actual}"


@pytest.mark.parametrize("shape", [(), (0,), (1,), (0, 3), (2, 0), (1, 1)])
@pytest.mark.parametrize("name", CALLS)
def test_an_array_of_any_shape_has_a_value_or_a_refusal_in_one_line(name, shape):
    function, given = CALLS[name]
    for key in given:
        try:
            function(**{**given, key: np.ones(shape)})
        except ElegansError as error:
            assert "\n" not in str(error) and len(str(error)) < 1000


@pytest.mark.parametrize("name", CALLS)
def test_what_holds_no_real_numbers_is_refused(name):
    function, given = CALLS[name]
    for key, argument in given.items():
        array = np.array(argument)
        for wrong in (
            np.ma.masked_array(array, np.ones(array.shape, bool)),
            array.astype(complex),
            array.astype("M8[s]"),
        ):
            assert value_or_refusal(function, {**given, key: wrong}) is ElegansError, f"{key} of {wrong.dtype}"


@pytest.mark.parametrize("name", ["coefficient", "certify", "from_table"])
@pytest.mark.parametrize("wrong", [0.5, np.nan, np.inf, 1e300])
def test_a_member_that_is_not_whole_is_refused_in_lists_and_in_arrays(name, wrong):
    function, given = CALLS[name]
    ((key, argument),) = given.items()
    broken = np.where(np.array(argument) == 1, wrong, 0)
    for members in (broken, broken.tolist()):
        with pytest.raises(ElegansError):
            function(**{key: members})
