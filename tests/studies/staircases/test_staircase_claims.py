"""The rules of the staircases on tables in which the statement is true, false, or open."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import elegans as el
from elegans.experiments import InsufficientData
from elegans.experiments.evidence import collected
from elegans.studies.staircases import (
    layerwise_or_joint as layerwise,
    leap_scaling as scaling,
    leap_table,
    one_neuron,
    reuse,
    samples_needed,
    square_loss_noise as noise,
    staircase_plateaus as plateau,
)
from elegans.studies.staircases.growth import power_law
from elegans.studies.staircases.models import BiasedInit
from elegans.studies.staircases.theory.overlaps import noise_barrier

SIZES = (64, 128, 256, 512, 1024)


def runs(link, rate, power, exponent, sizes=SIZES, count=100, spread=0.3, log=False):
    generator = np.random.default_rng(0)
    luck = generator.lognormal(0, spread, count)
    rows = [
        {"link": link, "n": n, "rate": rate, "power": power, "seed": seed, "steps": 10 * n**exponent * luck[seed]}
        for n in sizes
        for seed in range(count)
    ]
    frame = pd.DataFrame(rows)
    return frame.assign(steps=frame["steps"] * (np.log(frame["n"]) if log else 1))


def times(powers=(1, 1, 2, 3)):
    schedules = {degree: (one_neuron.RATES[degree], max(degree, 2) / 2) for degree in (1, 2, 3, 4)}
    return pd.concat(
        [
            runs(f"h{degree}", *schedules[degree], exponent, log=degree == 2)
            for degree, exponent in zip(schedules, powers, strict=True)
        ]
    )


@pytest.mark.parametrize(
    ("powers", "verdict"), [((1, 1, 2, 3), "holds"), ((1, 1, 1.5, 3), "holds in part"), ((2, 2, 3, 4), "fails")]
)
def test_exponents_are_compared_with_their_predictions(powers, verdict):
    assert one_neuron.information_exponent.decide({"times": times(powers)}).verdict == verdict


def test_few_runs_leave_exponents_open():
    few = times()
    judged = one_neuron.information_exponent.decide({"times": few[few["seed"] < 30]})
    assert judged.verdict == "undecided" and "40 runs" in judged.needs


def schedule_times(growth):
    sizes = one_neuron.ABOVE["paper"]
    climbs = runs("h3", one_neuron.COARSE, 1.0, 1.0, sizes)
    climbs["steps"] *= np.exp(growth * climbs["n"])
    return pd.concat([runs("h3", one_neuron.FIXED, 1.0, 1.5), climbs])


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, "holds"), (0.0, "holds in part"), (3.0, "holds in part")])
def test_times_above_the_crossover_are_compared_with_kramers_law(factor, verdict):
    growth = factor * noise_barrier(3, one_neuron.COARSE)
    assert one_neuron.schedule_sets_exponent.decide({"times": schedule_times(growth)}).verdict == verdict


@pytest.mark.parametrize(("shift", "verdict"), [(0.005, "holds"), (0.2, "fails"), (0.09, "undecided")])
def test_differences_from_the_equation_are_compared_between_dimensions(shift, verdict):
    cells = [
        {"link": link, "loss": loss, "n": n, "runs": 200, "time": time, "theory": 0.5, "overlap": 0.5 + difference}
        for n, difference in zip(one_neuron.DIFFERENCES, (0.1, shift), strict=True)
        for (link, loss, *_), time in itertools.product(one_neuron.PATH_CELLS, np.linspace(0, 3, 21))
    ]
    paths = pd.DataFrame(cells).assign(standard_error=0.001)
    assert one_neuron.overlap_equation.decide({"paths": paths}).verdict == verdict


def test_a_curve_of_known_growth_gives_its_slope():
    rows = runs("h3", 0.05, 1.5, 2.0)
    fitted = one_neuron.law(rows, 3)
    assert fitted.low < 2 < fitted.high and fitted.high - fitted.low < 1e-6  # seeds are alike at all sizes
    assert one_neuron.growth(rows.assign(steps=rows["n"] * np.exp(rows["n"] / 500))).exponent == pytest.approx(1 / 500)


def test_all_orders_of_a_staircase():
    assert leap_table.least_over_orders([[0, 1, 2], [0], [0, 1]]) == 1
    assert leap_table.least_over_orders([[0, 1, 2], [0]]) == 2


def reuse_times(powers, count=29):
    """Runs of all courses, at their own rates and paper dimensions, with exponents by target and reuse."""
    frames = []
    for course in reuse.COURSES:
        exponent = powers[course.target, course.reuse > 0]
        for place, rate in enumerate(course.rates):
            rows = runs(course.target, rate, course.power, exponent, course.dimensions["paper"], count)
            slower = 1 + abs(place - 2) if len(course.rates) > 1 else 1
            logs = np.log(rows["n"]) if course.target == "h4" and course.reuse else 1
            rows["steps"] = rows["steps"] * slower * logs
            frames.append(rows.assign(target=course.target, reuse=course.reuse))
    return {"times": pd.concat(frames, ignore_index=True)}


ONCE_AND_TWICE = {"h3": (2, 1), "h4": (3, 1), "bump": (3, 3), "e3": (2, 1), "x1x2x3": (2, 2), "maj x4": (1, 1)}
TRUE = {(target, twice): pair[twice] for target, pair in ONCE_AND_TWICE.items() for twice in (False, True)}


@pytest.mark.parametrize(
    ("rule", "target", "otherwise"),
    [
        (reuse.reuse_breaks_information, "h3", 2.0),
        (reuse.reuse_breaks_leap, "e3", 2.0),
        (reuse.hard_even_links, "bump", 1.0),
    ],
)
def test_reuse_is_judged_by_its_exponents(rule, target, otherwise):
    assert rule.decide(reuse_times(TRUE)).verdict == "holds"
    assert rule.decide(reuse_times(TRUE | {(target, True): otherwise})).verdict == "holds in part"
    both = reuse_times(TRUE | {(name, True): 2.5 for name, _ in TRUE})
    assert rule.decide(both).verdict in ("fails", "holds in part")
    assert rule.decide(reuse_times(TRUE, count=20)).verdict == "undecided"


def test_one_pass_at_a_rate_over_the_squared_dimension_must_take_more_than_any_target():
    verdict = reuse.hard_even_links.decide(reuse_times(TRUE | {("h4", False): 2.0}))
    assert verdict.verdict == "holds in part" and verdict.numbers["h4, one pass"]["verdict"] == "fails"


@pytest.mark.parametrize(("twice", "verdict"), [(2.0, "holds"), (1.5, "fails"), (1.7, "undecided")])
def test_reuse_may_not_lower_the_exponent_of_a_parity(twice, verdict):
    tables = reuse_times(TRUE | {("x1x2x3", True): twice})
    luck = np.random.default_rng(1).lognormal(0, 0.2, len(tables["times"]))  # so that the interval has a width
    tables["times"]["steps"] *= np.where(tables["times"]["target"] == "x1x2x3", luck, 1)
    assert reuse.two_values_gain_nothing.decide(tables).verdict == verdict


def test_one_pass_that_is_linear_leaves_reuse_nothing_to_break():
    verdict = reuse.reuse_breaks_leap.decide(reuse_times(TRUE | {("e3", False): 1.0}))
    assert verdict.numbers["one pass"]["verdict"] == "fails"


def test_the_best_rate_counts_and_censored_runs_are_the_slowest():
    rows = reuse_times(TRUE)["times"]
    one_pass = rows[(rows["target"] == "h3") & (rows["reuse"] == 0)]
    best = one_pass[one_pass["rate"] == reuse.DELTAS[2]]
    assert power_law(one_pass) == power_law(best)
    censored = best.assign(steps=best["steps"].where(best["seed"] < 20))
    assert power_law(censored).exponent > 0
    with pytest.raises(InsufficientData, match="more than half"):
        power_law(best.assign(steps=best["steps"].where(best["seed"] < 5)))


def climbs(crossings, count=40, exponent=1.0):
    """Runs of all staircases: steps at which coefficients pass half of their targets, in the order given by name."""
    rows = []
    for name, rate in itertools.product(plateau.STAIRCASES, plateau.RATES):
        sizes = plateau.DIMENSIONS["laptop"] if name in plateau.MERGED and rate == plateau.RATES[0] else (32,)
        order = crossings.get(name, range(len(plateau.STAIRCASES[name])))
        for n, seed in itertools.product(sizes, range(count)):
            growth = (n / 16) ** exponent
            passed = {f"set{number}": (100.0 * (1 + place) + seed) * growth for number, place in enumerate(order)}
            quarter = (50 + seed) * growth
            rows.append({"staircase": name, "n": n, "rate": rate, "seed": seed, "quarter": quarter, **passed})
    return {"steps": pd.DataFrame(rows)}


@pytest.mark.parametrize(
    ("crossings", "verdict"),
    [
        ({}, "holds"),
        ({"gap of 2": [1, 0]}, "holds in part"),
        ({"gap of 2": [0, 0]}, "holds in part"),
        ({name: range(len(sets))[::-1] for name, sets in plateau.STAIRCASES.items()}, "fails"),
    ],
)
def test_the_order_in_which_sets_are_learned_decides(crossings, verdict):
    assert plateau.plateaus.decide(climbs(crossings)).verdict == verdict
    assert plateau.plateaus.decide(climbs(crossings, count=20)).verdict == "undecided"


def test_sets_that_are_never_learned_are_out_of_order():
    rows = pd.DataFrame(
        {"set0": [1.0, 1.0, 1.0, np.nan], "set1": [2.0, 2.0, np.nan, 3.0], "set2": [3.0, *3 * [np.nan]]}
    )
    assert plateau.in_order(rows).tolist() == [True, False, False, False]
    never = climbs({})["steps"].assign(set1=np.nan)
    assert plateau.plateaus.decide({"steps": never}).verdict == "fails"


@pytest.mark.parametrize(("exponent", "verdict"), [(1.0, "holds"), (1.2, "holds"), (1.6, "fails")])
def test_exponents_of_staircases_are_compared_with_that_of_d_log_d(exponent, verdict):
    assert plateau.merged_staircase_linear.decide(climbs({}, exponent=exponent)).verdict == verdict


def test_a_staircase_is_climbed_when_its_last_set_is_learned():
    steps = climbs({}, exponent=1.0)["steps"]
    later = steps.assign(set3=steps["set3"] * steps["n"] ** 0.6)
    verdict = plateau.merged_staircase_linear.decide({"steps": later})
    assert verdict.verdict == "holds in part"
    assert verdict.numbers["staircase of 4"]["verdict"] == "fails"
    assert verdict.numbers["staircase of 3"]["verdict"] == "holds"
    never = plateau.all_sets(steps.assign(set1=np.nan), "staircase of 4")
    assert never.isna().all()


def quarters(powers, count=24, falling=2.0):
    """Runs of all targets with exponents by name, leap 2 with a factor log n, and leap 3 at both schedules."""
    rows = []
    generator = np.random.default_rng(0)
    luck = generator.lognormal(0, 0.1, count)
    cells = [(name, n, 1.0) for name in scaling.TARGETS for n in (16, 32, 64)]
    for name, n, power in [*cells, *(("x1 x2 x3", n, scaling.FALLING) for n in (32, 64))]:
        leap = scaling.TARGETS[name].leap
        exponent = falling if power > 1 else powers.get(name, {1: 1.0, 2: 1.0, 3: 1.5}[leap])
        steps = 10 * (n / 16) ** exponent * (np.log(n) if leap == 2 else 1) * luck
        rate = round(scaling.RATE * (n / 16) ** (1 - power), 6)
        rows += [{"target": name, "n": n, "rate": rate, "seed": seed, "steps": steps[seed]} for seed in range(count)]
    small = pd.DataFrame(rows).assign(biases=scaling.SMALL)
    return {"quarters": pd.concat([small, small[small["target"] == "x1 x2 x3"].assign(biases=scaling.LARGE)])}


def test_growth_with_the_leap_decides_whether_leaps_order_targets():
    decide = scaling.leap_orders_targets.decide
    assert decide(quarters({})).verdict == "holds"
    assert decide(quarters({"x1 x2 x3": 0.5})).verdict == "fails"
    assert decide(quarters({}, count=10)).verdict == "undecided"


def test_exponents_of_leaps_fail_only_if_they_do_not_approach_their_predictions():
    decide = scaling.leap_exponents.decide
    assert decide(quarters({})).verdict == "holds"
    assert decide(quarters({"x1": 2.0})).verdict == "holds in part"
    tables = quarters({"x1": 1.0})
    rows = tables["quarters"]
    early = (rows["target"] == "x1") & (rows["n"] == 16)
    rows.loc[early, "steps"] /= 4  # an exponent of 3 at first, and of 1 then
    assert decide(tables).numbers["x1"]["verdict"] == "undecided"
    assert decide(quarters({"x1 x2 x3": 2.1})).numbers["x1 x2 x3"]["verdict"] == "fails"
    slow = decide(quarters({}, falling=3.5))
    assert slow.verdict == "holds in part" and slow.numbers["x1 x2 x3, rate 1/d^1.5"]["verdict"] == "fails"


def test_leap_3_is_judged_only_from_biases_that_do_not_shrink():
    rows = quarters({})["quarters"]
    for table in (rows[rows["biases"] == scaling.SMALL], rows[rows["biases"] == scaling.SMALL].drop(columns="biases")):
        judged = scaling.leap_exponents.decide({"quarters": table})
        assert judged.verdict == "undecided" and "hidden biases of size 1" in judged.needs


def test_a_bias_gives_a_relu_a_cubic_coefficient():
    """The mean of x2 x3 over active inputs is 0 without a bias; with large ones its size times n does not shrink."""

    def coefficient(n, size):
        layer = BiasedInit(size=size).layer(el.random.Key(0, 1), el.random.Key(0, 2), 4000, n)
        weight, bias = layer["weight"].astype(float), layer["bias"].astype(float)
        rest = np.sqrt((weight[:, 2:] ** 2).sum(axis=1))
        signs = itertools.product((-1, 1), repeat=2)
        means = sum(one * two * norm.cdf((one * weight[:, 0] + two * weight[:, 1] + bias) / rest) for one, two in signs)
        return n * np.abs(means / 4).mean()

    assert coefficient(64, 1e-9) < 1e-6
    assert coefficient(1024, 1.0) == pytest.approx(coefficient(64, 1.0), rel=0.1)
    assert coefficient(1024, 1024**-0.5) == pytest.approx(coefficient(64, 64**-0.5) / 4, rel=0.1)


def loss_runs(factors, spread=0.2):
    """Return runs that succeed up to a rate of their own: 0.6 times the bearable one, by a factor for each exponent."""
    generator = np.random.default_rng(0)
    rows = []
    for (degree, factor), loss in itertools.product(zip(noise.DIMENSIONS, factors, strict=True), noise.LOSSES):
        own = factor if loss == "square" else 1.0
        base = noise.bearable(degree, loss)
        limits = 0.6 * own * base * generator.lognormal(0, spread, noise.LEAST)
        for step, (seed, limit) in itertools.product(range(-4, 11), enumerate(limits)):
            rate = base * 2 ** (step / 2)
            rows.append({"degree": degree, "loss": loss, "rate": rate, "seed": seed, "reached": int(rate < limit)})
    return {"runs": pd.DataFrame(rows)}


@pytest.mark.parametrize(
    ("factors", "verdict"), [((1, 1, 1), "holds"), ((1, 1, 4), "holds in part"), ((4, 4, 4), "fails")]
)
def test_the_largest_rates_of_two_losses_are_compared(factors, verdict):
    judged = noise.square_loss_noise.decide(loss_runs(factors))
    assert judged.verdict == verdict
    if verdict == "holds in part":
        assert judged.needs == "holds for k = 2; holds for k = 3; fails for k = 4"


def test_a_largest_rate_beyond_the_grid_is_not_guessed():
    judged = noise.square_loss_noise.decide(loss_runs((100, 1, 1)))
    assert judged.verdict == "undecided" and "more and fewer than half" in judged.needs


def kept_runs(table, query):
    """The chosen rows of the kept table of one neuron at scale paper with most of them: parts are kept apart."""
    kept = [each for each in collected() if (each.experiment, each.scale) == ("one-neuron", "paper")]
    rows = (each.tables[table] for each in kept)
    return max((each.query(query) for each in rows if len(each)), key=lambda each: (each["n"].nunique(), len(each)))


def test_mean_overlaps_of_the_kept_runs_are_those_of_the_equation():
    """For k = 2, both losses and the largest dimension: within 0.003, three standard errors or more."""
    paths = kept_runs("paths", "link == 'h2'")
    largest = paths[paths["n"] == paths["n"].max()]
    assert set(largest["loss"]) == {"correlation", "square"} and largest["n"].min() >= 8000
    assert (largest["overlap"] - largest["theory"]).abs().max() < 0.003


@pytest.mark.parametrize(
    ("link", "rate", "power", "largest", "exponent"),
    [
        ("h1", 0.05, 1.0, 32_768, 1.02),
        ("h2", 0.05, 1.0, 65_536, 1.16),
        ("h3", 0.05, 1.5, 1024, 2.04),
        ("h3", 0.02, 1.0, 1024, 1.46),
    ],
)
def test_exponents_of_the_kept_runs_are_those_of_a_first_look(link, rate, power, largest, exponent):
    """Within 0.1, without logarithms, in the dimensions of the first look; the runs are those of the evidence."""
    rows = kept_runs("times", f"link == {link!r} and rate == {rate} and power == {power}")
    assert power_law(rows[rows["n"] <= largest]).exponent == pytest.approx(exponent, abs=0.1)


@pytest.mark.parametrize(
    ("parities", "verdict"),
    [
        ((2.0, 2.0), "holds"),
        ((1.3, 2.0), "holds"),
        ((1.0, 2.0), "undecided"),
        ((0.3, 2.0), "holds in part"),
        ((0.3, 0.3), "fails"),
    ],
)
def test_exponents_of_least_samples_are_compared(parities, verdict):
    generator = np.random.default_rng(0)
    rows = []
    for batch, parity in zip(samples_needed.BATCHES, parities, strict=True):
        for (target, power), n in itertools.product({"e3": 1.0, "x1 x2 x3": parity}.items(), (16, 32, 64)):
            limits = 32 * n * (n / 16) ** (power - 1) * generator.lognormal(0, 0.2, 12)
            for size, (seed, limit) in itertools.product(samples_needed.POWERS["laptop"], enumerate(limits)):
                examples = round(n * 2 ** float(size))
                cell = {"target": target, "n": n, "batch": batch, "examples": examples}
                rows.append({**cell, "seed": seed, "learned": int(examples > limit)})
    assert samples_needed.label_leap_predicts.decide({"runs": pd.DataFrame(rows)}).verdict == verdict


@pytest.mark.parametrize(("extra", "verdict"), [(0.0, "holds"), (0.5, "fails")])
def test_growth_of_both_trainings_is_compared(extra, verdict):
    frames = [
        runs("", 0.5, 1.0, exponent, (16, 32, 64), 24, 0.1).assign(target=name, trained=trained)
        for name in layerwise.NAMES
        for trained, exponent in ((layerwise.JOINT, 1.1), (layerwise.FIRST, 1.1 + extra))
    ]
    assert layerwise.layerwise_equals_joint.decide({"quarters": pd.concat(frames)}).verdict == verdict


def test_the_first_layer_alone_leaves_output_weights_where_they_are():
    one = layerwise.run("x1", 8, layerwise.FIRST).replace("training.steps", 50)
    weights = el.train(one).parameters["output"]["weight"]
    assert set(np.unique(weights)) == {-1.0, 1.0}


def test_the_figure_of_leap_scaling_states_no_finding_from_two_seeds():
    rows = [{"target": "x1", "n": n, "rate": 0.5, "seed": seed, "steps": 64.0} for n in (8, 16) for seed in (0, 1)]
    assert scaling.plot({"quarters": pd.DataFrame(rows)}).get_suptitle().startswith("2 seeds, too few for a finding")
