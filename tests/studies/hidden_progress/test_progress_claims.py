"""What the hidden-progress study claims is there, with error rates stated.

Times to solve are checked against those that an independent NumPy program measured (25 trials a cell), within a factor
of 2. Where a test states how often it fails although all is well, that is from 20000 draws of as many trials from 100
trials of each cell or from the laptop runs on the experiments' pages. Seeds are fixed, so on one type of machine a test
passes always or never.
"""

import numpy as np
import pytest

import elegans as el
from elegans.analysis import grokking_delay, quantile, variance_components
from elegans.experiments import EXPERIMENTS
from elegans.studies.hidden_progress.grokking import samples
from elegans.studies.hidden_progress.noisy_parity import noisy
from elegans.studies.hidden_progress.not_random_search import INITS, common
from elegans.studies.hidden_progress.settings import configuration
from elegans.studies.hidden_progress.width import widths
from elegans.training.engines import ENGINES

pytestmark = pytest.mark.skipif(ENGINES["fused"].unavailable() is not None, reason="slow without the fused engine")
slow = pytest.mark.slow


def times(identifier, n, k, seeds, **settings):
    """Return the times to solve of one configuration, infinite where unsolved."""
    table = el.run(el.grid(configuration(identifier, n, k, **settings), {}, seeds=seeds))
    return table["solved_at"].fillna(np.inf).to_numpy()


def medians(table, column):
    """Return the median time by a column's values, unsolved trials being infinite."""
    return table.fillna({"solved_at": np.inf}).groupby(column)["solved_at"].median()


@pytest.mark.parametrize(
    ("identifier", "rate", "k", "expected"),
    [
        ("ii", 1.0, 2, 30),
        ("ii", 1.0, 3, 220),
        ("xv", 0.05, 2, 100),
        ("xv", 0.05, 3, 230),
        ("xiv", 0.01, 2, 200),
        ("xiv", 0.01, 3, 740),
        ("ii", 0.1, 3, 1190),
        ("ii", 0.1, 4, 1480),
        pytest.param("ii", 1.0, 4, 1150, marks=slow),
        pytest.param("xv", 0.05, 4, 690, marks=slow),
        pytest.param("xiv", 0.01, 4, 2920, marks=slow),
        pytest.param("i", 0.1, 2, 160, marks=slow),
        pytest.param("i", 0.1, 3, 2160, marks=slow),
        pytest.param("i", 0.1, 4, 3780, marks=slow),
        pytest.param("iv", 0.01, 2, 430, marks=slow),
        pytest.param("iv", 0.01, 3, 1410, marks=slow),
        pytest.param("iv", 0.01, 4, 4410, marks=slow),
        pytest.param("xiii", 0.01, 2, 240, marks=slow),
        pytest.param("xiii", 0.01, 3, 1070, marks=slow),
        pytest.param("xiii", 0.01, 4, 3170, marks=slow),
    ],
)
def test_median_times_at_30_signs_are_those_of_an_independent_program(identifier, rate, k, expected):
    """Medians of 25 trials within a factor of 2. At k = 4 they miss with probability below 0.007, else below 0.0003."""
    found = np.median(times(identifier, 30, k, 25, learning_rate=rate))
    assert expected / 2 <= found <= 2 * expected


@pytest.fixture(scope="module")
def wide():
    """Times of ReLU networks of width 100 at n = 10, 20, 30, 25 trials a cell."""
    return {k: {n: times("ii", n, k, 25, learning_rate=1.0) for n in (10, 20, 30)} for k in (2, 3, 4)}


@slow
def test_tenths_and_medians_of_wide_relu_networks_are_those_of_an_independent_program(wide):
    """25 trials at learning rate 1, within a factor of 2; measured within 1.35. Nine medians and nine tenths."""
    published = {
        2: {10: (20, 20), 20: (20, 30), 30: (30, 30)},
        3: {10: (50, 60), 20: (120, 130), 30: (190, 220)},
        4: {10: (110, 160), 20: (360, 470), 30: (860, 1150)},
    }
    for k, cells in published.items():
        for n, (tenth, middle) in cells.items():
            assert tenth / 2 <= quantile(wide[k][n], 0.1) <= 2 * tenth
            assert middle / 2 <= np.median(wide[k][n]) <= 2 * middle


@slow
def test_coarse_exponents_of_wide_relu_networks_are_small_and_grow_with_k(wide):
    """Measured by another program: 0.13, 0.44 and 0.67, far below k: each is within a factor of 2 of that. Each is
    outside the ranges below, which are those of 99.8% of draws, with probability 0.002."""
    found = []
    for own in wide.values():
        tenth = {n: quantile(each, 0.1) for n, each in own.items()}
        found.append(max(0, *(np.log(tenth[n] / tenth[10]) / np.log(n - 9) for n in (20, 30))))
    for exponent, expected in zip(found, (0.13, 0.44, 0.67), strict=True):
        assert expected / 2 <= exponent <= 2 * expected
    assert 0.13 <= found[0] <= 0.37
    assert 0.36 <= found[1] <= 0.51
    assert 0.53 <= found[2] <= 0.78


@slow
def test_exponents_of_wide_relu_networks_are_below_k_and_grow_with_it(wide):
    """Slopes of the medians on logarithmic axes: below k, and in the order of k, in every one of 20000 draws."""
    exponents = [
        np.polyfit(np.log([10, 20, 30]), np.log(list(map(np.median, own.values()))), 1)[0] for own in wide.values()
    ]
    assert all(exponent < k for exponent, k in zip(exponents, wide, strict=True))
    assert exponents == sorted(exponents)


@slow
@pytest.mark.parametrize(
    ("identifier", "rate", "trials"), [("i", 0.1, 25), ("iv", 0.01, 25), ("xiv", 0.01, 100), ("xv", 0.05, 100)]
)
def test_exponents_of_other_networks_are_below_k_and_grow_with_it(identifier, rate, trials):
    """Slopes of medians at n = 10, 20, 30. Of bootstrap samples of 100 trials 1.2% (xiv) and 0.05% (xv) have them in
    another order, and with 25 trials 16 and 8%; of 25 trials 2% (i) and 1% (iv). At least 96% of the trials of each
    cell are solved: measured 100% of 25 or 100, but 98% of (xiv) at (30, 4)."""
    exponents = []
    for k in (2, 3, 4):
        found = [times(identifier, n, k, trials, learning_rate=rate) for n in (10, 20, 30)]
        assert min(np.isfinite(one).mean() for one in found) >= 0.96
        exponents.append(np.polyfit(np.log([10, 20, 30]), np.log(list(map(np.median, found))), 1)[0])
    assert all(exponent < k for exponent, k in zip(exponents, (2, 3, 4), strict=True))
    assert exponents == sorted(exponents)


@slow
def test_triangle_waves_are_often_stuck_at_10_signs_so_that_their_exponents_do_not_grow_with_k():
    """(xiii): 14 of 25 trials at (10, 4) were solved by another program, 13 here; at a rate of 56% fewer than 7 or more
    than 20 have probability 0.004. Elsewhere at least 24 of 25 are. The median at (10, 4) being high, the exponents
    0.28 and 0.40 of k = 2 and 3 are followed by one below 0: the claim that they grow with k fails for this network."""
    found = {(n, k): times("xiii", n, k, 25, learning_rate=0.01) for k in (2, 3, 4) for n in (10, 20, 30)}
    solved = {cell: int(np.isfinite(own).sum()) for cell, own in found.items()}
    assert 7 <= solved.pop((10, 4)) <= 20
    assert min(solved.values()) >= 24
    middle = {cell: np.median(own) for cell, own in found.items()}
    exponents = [np.polyfit(np.log([10, 20, 30]), np.log([middle[n, k] for n in (10, 20, 30)]), 1)[0] for k in (2, 3)]
    assert 0 < exponents[0] < 2 and 0 < exponents[1] < 3
    assert middle[10, 4] > middle[30, 4]


@slow
@pytest.mark.parametrize(("k", "medians"), [(3, (130, 350, 730, 1090)), (4, (470, 2060, 4420, 8440))])
def test_times_of_wide_relu_networks_grow_to_80_signs_as_an_independent_program_had_it(k, medians):
    """15 trials at n = 20, 40, 60, 80: medians within a factor of 2 (measured: within 1.4), and the exponent from 20
    to 80 within 0.45 of 1.53 and 2.08: three standard errors of the difference of two such exponents at a standard
    deviation of log t of 0.35."""
    sizes = (20, 40, 60, 80)
    found = [np.median(times("ii", n, k, 15, learning_rate=1.0)) for n in sizes]
    for middle, expected in zip(found, medians, strict=True):
        assert expected / 2 <= middle <= 2 * expected
    exponents = [np.log(own[-1] / own[0]) / np.log(4) for own in (found, medians)]
    assert exponents[0] == pytest.approx(exponents[1], abs=0.45)


def test_no_trial_is_lucky_early():
    """(xv) at (30, 3), 200 trials: a search without memory would have 7% of its trials below a tenth of the median, so
    that no success there has probability 10^-6."""
    found = times("xv", 30, 3, 200)
    assert found.min() > 0.1 * np.median(found)
    assert np.quantile(found, 0.95) > 1.5 * np.median(found)


@slow
@pytest.mark.parametrize(
    ("identifier", "rate", "k", "trials", "fastest", "middle", "late"),
    [
        ("ii", 1.0, 3, 100, 0.68, 220, None),
        ("ii", 0.1, 3, 100, 0.53, 1190, None),
        ("ii", 1.0, 4, 100, 0.52, 1150, None),
        ("xv", None, 3, 1000, 120 / 250, 250, None),
        ("xv", None, 4, 1000, 330 / 670, 670, None),
        ("xiv", None, 3, 1000, 230 / 650, 650, 2230 / 650),
        ("xiv", None, 4, 1000, 460 / 2710, 2710, 11_900 / 2710),
    ],
)
def test_fastest_median_and_late_times_are_those_of_an_independent_program(
    identifier, rate, k, trials, fastest, middle, late
):
    """n = 30: the fastest over the median, more than 0.1 where a memoryless search would have 0.0014 among 1000 trials,
    and the 95% quantile over the median, about 3.4 and 4.4 for (xiv); measured 3.4 and 5.1. All within a factor of 1.5
    of the other program's (measured: 0.84 to 1.17), for which other seeds have not been tried."""
    found = times(identifier, 30, k, trials, learning_rate=rate)
    assert found.min() > 0.1 * np.median(found)
    assert fastest / 1.5 <= found.min() / np.median(found) <= 1.5 * fastest
    assert middle / 1.5 <= np.median(found) <= 1.5 * middle
    if trials == 1000:
        assert np.quantile(found, 0.95, method="lower") > 1.5 * np.median(found)
    if late is not None:
        assert late / 1.5 <= np.quantile(found, 0.95, method="lower") / np.median(found) <= 1.5 * late


@slow
@pytest.mark.parametrize(("identifier", "least", "most"), [("xiv", 3.0, None), ("i", 1.0, 3.0)])
def test_initial_values_decide_far_more_than_data_for_a_neuron_and_more_for_a_relu_network(identifier, least, most):
    """The 95% interval of the ratio of variances of log t, between 100 initial values and within them, 6 streams each.

    Another program had ratios of 19 and 5.3 with 10 initial values, and asks for more than 3. For the neuron the
    interval is 4.3 to 8.1, above 3. For the ReLU network it is 1.1 to 2.2: the ratio exceeds 1, and is not above 3.
    Each end is wrong with probability 0.025.
    """
    table = el.run(common(30, 3, range(100), streams=6, rates={identifier: INITS[identifier]}))
    groups = [np.log(own["solved_at"].dropna()) for _, own in table.groupby("model.init")]
    found = variance_components(groups)
    assert found.low > least
    assert most is None or found.high < most


@pytest.fixture(scope="module")
def boxes():
    """Networks of four widths at (30, 3), batches of 128, 15 trials a width."""
    return el.run(widths((30,), (10, 30, 100, 300), 15))


@slow
def test_wide_networks_are_hardly_faster_and_less_unlucky(boxes):
    """Medians within a factor of 2 of another program's; widths 10 and 300 differ by less than a factor of 2 (wrong in
    0.1% of draws) where random searches would by 29; the slowest of width 300 takes at most 1.6 medians."""
    found = medians(boxes, "model.width")
    for width, expected in {10: 1390, 30: 1110, 100: 1120, 300: 970}.items():
        assert expected / 2 <= found[width] <= 2 * expected
    assert found[10] < 2 * found[300]
    assert boxes[boxes["model.width"] == 300]["solved_at"].max() <= 1.6 * found[300]


@slow
def test_five_neurons_are_slower_and_less_even_than_ten():
    """(30, 3), batches of 128, 60 trials: a median within a factor of 2 of another program's 3680, here 2520 to 3450 in
    four of five other groups of 15 and 1710 in the first; its slowest of 15 took 4.3 medians, and of 100 here 4 were
    not solved at all."""
    found = el.run(widths((30,), (5,), 60))["solved_at"].fillna(np.inf)
    assert 3680 / 2 <= found.median() <= 2 * 3680
    assert found.max() > 2 * found.median()


@slow
def test_a_network_of_as_many_neurons_as_signs_is_often_stuck():
    """Width 3 at (30, 3): 43 of 100 were solved; of 15, none or all have probability below 0.0003."""
    solved = el.run(widths((30,), (3,), 15))["solved_at"].notna().sum()
    assert 0 < solved < 15


def learned(decay, size):
    """Return the networks of three seeds trained on a sample of (30, 3): when they fitted it, and when they solved."""
    sweep = samples(30, 3, (size,), (decay,), trials=3, steps=30_000, every=100)
    probes = EXPERIMENTS["grokking"].probes_of(sweep.cells[0])
    return [grokking_delay(el.train(trial, probes=probes), test=0.01) for trial in sweep]


@slow
@pytest.mark.parametrize(("decay", "size"), [(0.001, 1000), (0.01, 500)])
def test_networks_grok_at_the_edge_of_what_suffices(decay, size):
    """Delays of ten networks each were 4400 to 14700 and 3700 to 21300 steps: three of them at least 2500."""
    found = learned(decay, size)
    assert all(one.known == "exactly" and one.delay >= 2500 for one in found)


@slow
@pytest.mark.parametrize(("decay", "size"), [(0.0, 1000), (0.01, 300)])
def test_too_few_examples_are_fitted_and_nothing_else(decay, size):
    """None of ten networks each was solved; all fitted within 3000 steps."""
    found = learned(decay, size)
    assert all(one.test_at is None and one.train_at <= 3000 for one in found)


@slow
def test_enough_examples_are_fitted_and_solved_at_once():
    """Decay 0.01, 2000 examples: ten delays were 0 or 100 steps, the spacing of the measurements."""
    assert all(abs(one.delay) <= 300 for one in learned(0.01, 2000))


@slow
def test_stronger_decay_shortens_the_delay():
    """Decay 0.03, 500 examples: fitted at 1700 to 2300 and solved 300 to 600 steps later, where another program's
    network had 2700 and 400."""
    for one in learned(0.03, 500):
        assert 2700 / 2 <= one.train_at <= 2 * 2700
        assert one.known == "exactly" and one.delay <= 1000


@slow
def test_without_decay_the_last_errors_remain():
    """2000 examples: fitted by step 1200; errors on held-out examples stay at 0.2 to 1.0%, the median over the last
    5000 steps, where another program's network had 0.5%."""
    sweep = samples(30, 3, (2000,), (0.0,), trials=3, steps=30_000, every=100)
    probes = EXPERIMENTS["grokking"].probes_of(sweep.cells[0])
    for trial in sweep:
        errors = el.train(trial, probes=probes).measures["test-error"]["error"]
        assert 0.0005 <= np.median(errors[-50:]) <= 0.02


@slow
def test_too_much_decay_prevents_training():
    """Decay 0.1, 1000 examples: none of ten networks fitted, or was solved."""
    assert all(one.train_at is None and one.test_at is None for one in learned(0.1, 1000))


@slow
def test_the_time_to_solve_is_about_inverse_to_what_noise_leaves():
    """(30, 3), batches of 128, 15 trials: medians within a factor of 2 of another program's, and an exponent of
    1 / (1 - 2p) between 0.9 and 1.4, where 99.9% of draws had 0.98 to 1.28."""
    found = medians(el.run(noisy(((30, 3),), (128,), (0.0, 0.3, 0.45), 15)), "task.noise")
    for flips, expected in {0.0: 990, 0.3: 2570, 0.45: 12_860}.items():
        assert expected / 2 <= found[flips] <= 2 * expected
    inverse = [1 / (1 - 2 * flips) for flips in found.index]
    assert 0.9 <= np.polyfit(np.log(inverse), np.log(found), 1)[0] <= 1.4
