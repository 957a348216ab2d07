"""The rules of in-context regression on tables in which the statement is true, false, or open."""

import itertools

import numpy as np
import pandas as pd
import pytest

from elegans.experiments import InsufficientData
from elegans.studies.in_context_regression import (
    icl_context_length as length,
    icl_double_descent as descent,
    icl_drop_times as times,
    icl_fixed_point as point,
    icl_loss_curves as curves,
    icl_task_diversity as diversity,
)
from elegans.studies.in_context_regression.drops import directions, first_below, maxima_of_slope, plateaus
from elegans.studies.in_context_regression.fits import NOISE, bayes, slope_of_log
from elegans.studies.in_context_regression.theory.descent import context_levels
from elegans.studies.in_context_regression.theory.diversity import diversity_error

STEPS = np.arange(0.0, 10_001, 10)
LEVELS = context_levels(curves.SPECTRUM, curves.LENGTH)


def stairs(*times, width=100.0):
    """Return an error that falls from level to level at some times."""
    falls = zip(-np.diff(LEVELS), times, strict=False)
    return LEVELS[0] - sum(height / (1 + np.exp(-(STEPS - time) / width)) for height, time in falls)


def test_drops_and_plateaus_of_a_known_staircase_are_counted():
    clear = stairs(1000, 3000, 6000, 9000)
    assert maxima_of_slope(STEPS, clear) == 4
    shown = plateaus(STEPS, clear, LEVELS)
    assert [row["m"] for row in shown] == [1, 2, 3] and all(row["flat"] for row in shown)
    assert [row["level"] for row in shown] == pytest.approx(LEVELS[1:4], rel=0.01)
    assert [row["flat"] for row in plateaus(STEPS, stairs(1000, 1150, 6000), LEVELS)] == [False, True]
    assert maxima_of_slope(STEPS, stairs(1000)) == 1
    assert first_below(STEPS, clear, 2.0) == 0 and np.isnan(first_below(STEPS, clear, 0.0))
    shares = np.column_stack([STEPS / 5000, STEPS / 20_000])
    assert directions(STEPS, shares)[0] == 2510 and np.isnan(directions(STEPS, shares[:501])[1])


def run_rows(setting, count=100, maxima=1, order=(1, 2, 3, np.nan), fourth=0):
    rows = []
    for seed in range(count):
        passed = {f"direction{m + 1}": step for m, step in enumerate(order)}
        drops = {"drop1": 1.0, "drop2": 2.0, "drop3": np.nan, "drop4": 9.0 if seed < fourth else np.nan}
        rows.append({"setting": setting, "seed": seed, **drops, **passed, "maxima": maxima})
    return pd.DataFrame(rows)


@pytest.mark.parametrize(("maxima", "verdict"), [((1, 1), "holds"), ((1, 2), "holds in part"), ((2, 3), "fails")])
def test_one_drop_is_judged_in_both_spectra(maxima, verdict):
    frames = [run_rows(name, maxima=m) for name, m in zip((curves.WHITE, curves.LINEAR), maxima, strict=True)]
    assert curves.one_drop.decide({"runs": pd.concat(frames)}).verdict == verdict


@pytest.mark.parametrize(
    ("order", "verdict"),
    [((1, 2, 3, 4), "holds"), ((1, 2, np.nan, np.nan), "holds"), ((2, 1, 3, 4), "fails"), ((1, 2, 2, 3), "fails"),
     ((1, np.nan, np.nan, np.nan), "fails"), ((1, 2, np.nan, 3), "fails")],
)  # fmt: skip
def test_order_is_strict_and_needs_two_directions(order, verdict):
    assert curves.falling_order.decide({"runs": run_rows(curves.LONGER, order=order)}).verdict == verdict


@pytest.mark.parametrize(
    ("fourth", "verdict"), [((0, 0), "holds"), ((0, 30), "holds in part"), ((40, 40), "fails"), ((7, 7), "undecided")]
)
def test_the_fourth_drop_is_counted_in_both_models(fourth, verdict):
    frames = [run_rows(name, fourth=n) for name, n in zip((curves.PUBLISHED, curves.ALL), fourth, strict=True)]
    assert curves.published_length.decide({"runs": pd.concat(frames)}).verdict == verdict


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, "holds"), (1.05, "fails")])
def test_levels_of_merged_plateaus_do_not_count(factor, verdict):
    rows = [
        {"setting": curves.LONGER, "seed": seed, "m": m, "level": factor * LEVELS[m] if flat else 9.0, "flat": flat}
        for seed, m, flat in itertools.product(range(30), (1, 2, 3), (True, False))
    ]
    assert curves.staircase_levels.decide({"plateaus": pd.DataFrame(rows)}).verdict == verdict


def halves(error=0.0, slope=0.0):
    generator = np.random.default_rng(0)
    rows = []
    for heads, seed in itertools.product(times.HEADS, range(24)):
        theory = generator.uniform(80, 120)
        ratio = 1 + error + slope * np.log2(heads) + 0.001 * generator.normal()
        rows.append({"heads": heads, "seed": seed, "time": ratio * theory, "theory": theory})
    return {"halves": pd.DataFrame(rows)}


@pytest.mark.parametrize(
    ("error", "slope", "verdict"),
    [(0.0, 0.0, "holds"), (0.05, 0.0, "holds in part"), (0.0, 0.02, "fails"), (-0.015, 0.008, "holds in part")],
)
def test_times_of_merged_attention_are_judged_by_size_and_by_heads(error, slope, verdict):
    assert times.logistic.decide(halves(error, slope)).verdict == verdict


def test_half_times_lie_between_measurements():
    steps = np.array([0.0, 10, 20, 30])
    logits = np.array([-3.0, -1.5, 0.5, 2.0])
    assert times.half_time(steps, 1 / (1 + np.exp(-logits))) == pytest.approx(17.5)
    assert np.isnan(times.half_time(steps, np.full(4, 0.1)))


def ends(from_sample=0.001, power=-0.5, ratio=1.0, longer=1.0):
    generator = np.random.default_rng(0)
    cells = [(*setting, point.SAMPLE) for setting in point.SETTINGS]
    cells += [(*point.SETTINGS[0], size) for size in point.SIZES] + [(*point.SETTINGS[1], point.SIZES[-1])]
    cells += [(4, n, 0.0, "linear", point.LONGER_SIZE) for n in point.LENGTHS]
    rows = []
    for (d, n, noise, covariance, size), seed in itertools.product(cells, range(20)):
        luck = generator.lognormal(0, 0.01)
        rows.append({"d": d, "n": n, "noise": noise, "covariance": covariance, "sequences": size, "seed": seed,
                     "distance": luck * size**power, "from_sample": from_sample, "deviations": 2.0,
                     "ratio": ratio * luck, "longer": longer * luck})  # fmt: skip
    return {"ends": pd.DataFrame(rows)}


@pytest.mark.parametrize(
    ("fields", "verdicts"),
    [
        ({}, ("holds", "holds", "holds")),
        ({"from_sample": 0.03}, ("fails", "holds", "holds")),
        ({"power": -0.2}, ("holds", "holds in part", "holds")),
        ({"ratio": 1 / 3.29, "power": -1.0}, ("holds", "fails", "holds")),
        ({"longer": 0.9}, ("holds", "holds", "fails")),
    ],
)
def test_ends_of_training_are_judged_by_three_rules(fields, verdicts):
    rules = (point.fixed_point, point.one_step, point.length_bias)
    assert tuple(rule.decide(ends(**fields)).verdict for rule in rules) == verdicts


def fits(peak=1.0, height=10.0):
    generator = np.random.default_rng(0)
    rows = []
    for d, ratio, seed in itertools.product((10, 20), descent.RATIOS, range(20)):
        fresh = (height if ratio == peak else 1.0) * generator.lognormal(0, 0.05)
        count = round(ratio * d * (d + 1))
        rows.append({"d": d, "alpha": 2.0, "kappa": 4.0, "sequences": count, "seed": seed, "fresh": fresh})
    return {"fits": pd.DataFrame(rows)}


@pytest.mark.parametrize(
    ("peak", "height", "verdict"),
    [(1.0, 10.0, "holds"), (1.05, 5.0, "holds"), (1.5, 10.0, "fails"), (1.0, 2.0, "fails")],
)
def test_the_peak_has_a_place_and_a_height(peak, height, verdict):
    assert descent.double_descent.decide(fits(peak, height)).verdict == verdict


@pytest.mark.parametrize(("power", "offset", "verdict"), [(-1.0, 0.0, "holds"), (-1.0, 0.2, "fails")])
def test_the_limit_is_approached_or_missed(power, offset, verdict):
    generator = np.random.default_rng(0)
    rows = []
    for (alpha, kappa), tau, d in itertools.product(descent.SETTINGS, descent.TAUS, (10, 20, 40)):
        limit = diversity_error(alpha, kappa, NOISE, tau)
        for seed in range(20):
            ratio = 1 + offset + 2 * float(d) ** power + 0.001 * generator.normal()
            key = {"d": d, "alpha": alpha, "kappa": kappa, "sequences": round(tau * d * d), "seed": seed}
            rows.append({**key, "fresh": limit * ratio})
    assert descent.asymptotics.decide({"fits": pd.DataFrame(rows)}).verdict == verdict


def test_a_slope_needs_three_dimensions():
    with pytest.raises(InsufficientData):
        slope_of_log([(10.0, np.ones(3)), (20.0, np.ones(3))], 2.0, 0.05)


@pytest.mark.parametrize(
    ("few", "many", "verdict"), [(4.0, 0.9, "holds"), (1.5, 0.9, "holds in part"), (1.0, 1.1, "fails")]
)
def test_longer_prompts_are_judged_for_few_and_many_tasks(few, many, verdict):
    generator = np.random.default_rng(0)
    rows = []
    for (kappa, ratio), alpha, seed in itertools.product(((0.25, few), (4.0, many)), (10.0, 1000.0), range(20)):
        fresh = (ratio if alpha == 1000 else 1.0) * generator.lognormal(0, 0.02)
        rows.append({"kappa": kappa, "alpha": alpha, "seed": seed, "fresh": fresh})
    assert length.more_context_hurts.decide({"fits": pd.DataFrame(rows)}).verdict == verdict


@pytest.mark.parametrize(
    ("excess", "verdict"),
    [
        (lambda kappa: max(1 - kappa, 0.001), "holds"),
        (lambda kappa: max(1 - kappa, 0.1), "holds in part"),
        (lambda kappa: 0.2 / kappa, "fails"),
    ],
)
def test_the_threshold_is_told_from_a_smooth_fall(excess, verdict):
    generator = np.random.default_rng(0)
    limit = {k: diversity_error(100.0, k, NOISE) - diversity_error(100.0, np.inf, NOISE) for k in diversity.BELOW}
    rows = []
    cells = [*itertools.product(diversity.DIMENSIONS["laptop"], [NOISE]), (160, diversity.NOISIER)]
    for (d, noise), kappa, seed in itertools.product(cells, diversity.KAPPAS, range(20)):
        start = limit.get(kappa, 0.0) * (1 + 3 / d) if verdict != "fails" and kappa in limit else excess(kappa)
        key = {"d": d, "alpha": 100.0, "noise": noise, "kappa": kappa, "seed": seed}
        rows.append({**key, "excess": start * generator.lognormal(0, 0.002)})
    assert diversity.diversity_threshold.decide({"fits": pd.DataFrame(rows)}).verdict == verdict


def test_bayes_predictors_have_the_errors_of_the_specification():
    rows = bayes(512, *diversity.BAYES[:3], (1, 16), 0).set_index(["predictor", "tested", "tasks"])
    for key, stated in {
        ("for the pool", "pool", 1): 0.25,
        ("for the pool", "pool", 16): 1.11,
        ("ridge", "fresh", 16): 3.0,
    }.items():
        assert abs(rows.loc[key, "error"] - stated) < 5 * rows.loc[key, "standard_error"] + 0.02
