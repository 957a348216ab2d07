"""The rules that decide the statements of theory, and the checks that they are decided by."""

import numpy as np
import pandas as pd
import pytest

from elegans.experiments.checks import check, checks
from elegans.experiments.claims import InsufficientData
from elegans.experiments.results import Results
from elegans.studies.pareto_frontiers import selection_lemmas, selection_samples, statistical_queries, without_descent
from elegans.studies.pareto_frontiers.theory import neurons

THEORY = {claim.id: claim for module in (selection_lemmas, statistical_queries) for claim in module.CLAIMS}
MISPRINTS = {
    "the Fourier weight as a share of 2 rho, as printed in the proof",
    "smallest loss of a readout of the ideal features, as printed",
    "probability of loss above 7 epsilon, k = 4, offset 0.0625, the proof's rates, T as printed in the proof",
    "Claim 1: loss as a share of B ||psi||, as printed in the proof",
    "missing probability with r' as printed",
    "relative deviation of the ratio, as printed",
    "weights after the step, in units of epsilon^2/2k, as printed",
    "deviation of the exponent of the precision, as printed",
    "chance of a bias beside 1/(k + 1), as printed",
}


@pytest.mark.parametrize("name", sorted(THEORY.keys() - {statistical_queries.KERNELS}))
def test_a_lemma_holds_with_correction_by_a_misprint_and_fails_by_any_other_violation(name):
    good, misprint, bad = (
        check(name, label, worst, 1) for label, worst in (("first", 0.5), ("second, as printed", 2), ("third", 2))
    )
    other = check("pareto/another", "fourth", 2, 1)
    for rows, expected in (
        ([good, other], "holds"),
        ([good, misprint], "holds with correction"),
        ([good, bad], "fails"),
    ):
        assert THEORY[name].decide(checks(rows)).verdict == expected
    with pytest.raises(InsufficientData):
        THEORY[name].decide(checks([other]))


@pytest.mark.compiles
@pytest.mark.slow
def test_every_lemma_has_checks_and_only_misprints_are_violated():
    """At smoke the sign of C, negative for k = 4, is not met: there are bad neurons of k = 2 alone."""
    rows = selection_lemmas.EXPERIMENT.analyse(Results(pd.DataFrame(), scale="smoke"))["checks"]
    assert set(rows["claim"]) == {claim.id for claim in selection_lemmas.CLAIMS}
    assert set(rows.loc[~rows["satisfied"], "check"]) == MISPRINTS


def test_features_that_move_along_the_readout_reach_the_bound_and_exceed_it_with_the_largest_entry():
    generator = np.random.default_rng(0)
    first, readout, y = generator.standard_normal((64, 5)), generator.standard_normal(5), generator.choice([-1, 1], 64)
    share, entrywise = selection_samples.along_readout(first, readout, y, 0.3)
    assert share == pytest.approx(1)
    assert entrywise > 1.2


@pytest.mark.compiles
def test_the_printed_steps_suffice_with_some_rates_and_not_with_those_of_the_proof():
    """k = 4, where the factor B^2 that the proof has lost is largest; its rates decide nothing."""
    rows = pd.DataFrame(selection_samples.readout_descent(20, False, 0)).set_index("check")["satisfied"]
    event = "probability of loss above 7 epsilon, k = 4, offset 0.0625"
    assert rows[f"{event}, printed T, best of three schedules"]
    assert not rows[f"{event}, the proof's rates, T as printed in the proof"]


def test_the_printed_sign_of_c_fails_for_four_coordinates():
    rows = pd.DataFrame(selection_lemmas.bad_neurons(((15, 4, 9),))).set_index("check")
    assert not rows.loc["l1 norm beyond C, as printed", "satisfied"]
    assert rows.loc["l1 norm beyond |C|", "satisfied"]


def test_good_neurons_of_another_support_are_told_apart(monkeypatch):
    """Closed forms for the wrong neuron are found by enumeration: the comparison can fail."""
    wrong = neurons.over_sparse_gradient
    monkeypatch.setattr(neurons, "over_sparse_gradient", lambda n, support, ones: wrong(n, support, range(1, 10)))
    (row,) = selection_lemmas.gradients_of_good_neurons(((12, 2, 9),))
    assert not row["satisfied"]


def test_queries_have_checks_and_the_control_shows_that_noise_can_fall_short():
    rows = statistical_queries.EXPERIMENT.analyse(Results(pd.DataFrame(), scale="smoke"))["checks"]
    assert set(rows["claim"]) == {*(claim.id for claim in statistical_queries.CLAIMS), statistical_queries.CONTROL}
    assert set(rows.loc[~rows["satisfied"], "claim"]) == {statistical_queries.CONTROL, statistical_queries.KERNELS}


@pytest.mark.parametrize(
    ("lower", "upper", "error", "expected"),
    [(0.2, 0.0, 0.05, "holds"), (0.4, 0.1, 0.05, "undecided"), (0.7, 0.6, 0.05, "fails"), (0.2, 0.0, 0.2, "undecided")],
)
def test_kernels_are_judged_by_the_intervals_of_their_exponents(lower, upper, error, expected):
    ends = zip(statistical_queries.EXPONENT.items(), (lower, upper), strict=True)
    rows = [check(statistical_queries.KERNELS, f"{name}, k = 2", value, limit) for (name, limit), value in ends]
    rows.append(check(statistical_queries.KERNELS, "1/2 less the error", error, 0.1))
    assert THEORY[statistical_queries.KERNELS].decide(checks(rows)).verdict == expected


def test_a_sample_identifies_a_parity_as_enumeration_says():
    """Labels of another parity agree on a sample of m with probability 2^-m each."""
    generator = np.random.default_rng(0)
    single = [without_descent.ambiguous(6, 1, 2, generator) for _ in range(4000)]
    assert np.mean(single) == pytest.approx(1 - 0.75**5, abs=0.03)
    assert all(without_descent.ambiguous(5, 2, 0, generator) for _ in range(3))
    assert not any(without_descent.ambiguous(8, 3, 60, generator) for _ in range(50))


@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_tangent_kernel_is_a_mean_over_random_networks_and_learns_small_parities(k):
    generator = np.random.default_rng(0)
    x, z = generator.choice([-1.0, 1.0], (2, 3, 6))
    weight, bias = (
        generator.standard_normal((200_000, 6)) / np.sqrt(12),
        generator.standard_normal(200_000) / np.sqrt(2),
    )
    first, second = x @ weight.T + bias, z @ weight.T + bias
    hidden = ((first > 0).astype(float) @ (second > 0).T / 200_000) * (1 + x @ z.T / 6) / 2
    output = np.maximum(first, 0) @ np.maximum(second, 0).T / 200_000
    assert without_descent.tangent_kernel(x, z) == pytest.approx(hidden + output, abs=0.01)
    assert without_descent.kernel_errors(6, k, 400, generator)[0] < 0.05
