"""Scaling exponents and their bootstrap intervals."""

import math

import numpy as np
import pytest

from elegans.analysis import elbow, local_exponents, scaling_exponent


def generator(seed=0):
    return np.random.default_rng(seed)


def test_a_power_law_without_noise_is_found_exactly():
    found = scaling_exponent({size: [3 * size**-1.5] * 4 for size in (10, 100, 1000)}, generator=generator())
    assert (found.exponent, found.factor) == (pytest.approx(-1.5), pytest.approx(3))
    assert (found.low, found.high) == (pytest.approx(-1.5), pytest.approx(-1.5))


def test_the_interval_is_the_same_for_the_same_generator():
    cells = {size: list(size * np.exp(generator(1).normal(size=20))) for size in (10, 30, 100)}
    assert scaling_exponent(cells, generator=generator()) == scaling_exponent(cells, generator=generator())
    assert scaling_exponent(cells, generator=generator()) != scaling_exponent(cells, generator=generator(2))


def test_the_interval_covers_the_exponent():
    """100 data sets, 4 sizes of 20 log-normal times: 95% nominal, with 5 standard errors and what percentiles miss."""
    covered, source = 0, generator(3)
    for _ in range(100):
        cells = {size: size**0.5 * np.exp(source.normal(size=20)) for size in (10, 30, 100, 300)}
        found = scaling_exponent(cells, generator=source, resamples=100)
        covered += found.low <= 0.5 <= found.high
    assert 0.84 < covered / 100 <= 1


def test_resamples_without_a_median_are_counted():
    cells = {10: [100.0] * 5, 100: [200.0, 200.0, 200.0, math.nan, math.nan]}
    found = scaling_exponent(cells, generator=generator(), resamples=500)
    assert found.exponent == pytest.approx(math.log10(2))
    assert found.resamples + found.undefined == 500 and 0 < found.undefined < 250


@pytest.mark.parametrize(
    ("cells", "settings", "message"),
    [
        ({10: [1.0]}, {}, "at least two sizes"),
        ({0: [1.0], 10: [1.0]}, {}, "a size must be positive: size=0"),
        ({1: [1.0], 10: []}, {}, "at least one trial: size=10"),
        ({1: [1.0], 10: [math.nan]}, {}, "must be finite and positive"),
        ({1: [1.0], 10: [1.0]}, {"confidence": 0}, "confidence must lie between 0 and 1: confidence=0"),
        ({1: [1.0], 10: [1.0]}, {"resamples": 0}, "resamples must be at least 1: resamples=0"),
    ],
)
def test_what_has_no_exponent_is_refused(cells, settings, message):
    with pytest.raises(ValueError, match=message):
        scaling_exponent(cells, generator=generator(), **settings)


def test_local_exponents_are_the_slopes_between_neighbours():
    found = local_exponents([10, 20, 40, 80], [5, 10, 40, math.nan])
    assert found[1:3] == pytest.approx([1, 2])
    assert np.isnan(found[[0, 3]]).all()
    with pytest.raises(ValueError, match="must be positive and increasing"):
        local_exponents([20, 10], [1, 1])


@pytest.mark.parametrize("sizes", [(10, 20, 40), (10, 20, 40, 80), (10, 20, 40, 80, 160)])
def test_an_elbow_without_noise_is_found_exactly(sizes):
    middle = sizes[len(sizes) // 2]
    values = {size: [size**1.5 if size <= middle else middle**-1.0 * size**2.5] * 3 for size in sizes}
    found = elbow(values, generator=generator(), resamples=10)
    assert (found.lower, found.upper, found.middle) == (pytest.approx(1.5), pytest.approx(2.5), middle)
    assert (found.change, found.low, found.high) == (pytest.approx(1), pytest.approx(1), pytest.approx(1))


def test_the_interval_of_an_elbow_covers_no_change_where_there_is_none():
    """60 data sets, 5 sizes of 20 log-normal times: 95% nominal, with 5 standard errors and what percentiles miss."""
    covered, source = 0, generator(4)
    for _ in range(60):
        cells = {size: size**2 * np.exp(source.normal(size=20)) for size in (10, 20, 40, 80, 160)}
        found = elbow(cells, generator=source, resamples=80)
        covered += found.low <= 0 <= found.high
    assert 0.8 < covered / 60 <= 1


@pytest.mark.parametrize(
    ("cells", "settings", "message"),
    [
        ({10: [1.0], 20: [1.0]}, {}, "at least three sizes"),
        ({1: [1.0], 2: [1.0], 3: [math.nan]}, {}, "must be finite and positive"),
        ({1: [1.0], 2: [1.0], 3: [1.0]}, {"confidence": 1}, "confidence must lie between 0 and 1: confidence=1"),
    ],
)
def test_what_has_no_elbow_is_refused(cells, settings, message):
    with pytest.raises(ValueError, match=message):
        elbow(cells, generator=generator(), **settings)
