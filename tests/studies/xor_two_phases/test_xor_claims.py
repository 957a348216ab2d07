"""The rules that decide the claims of the XOR, on made-up tables, and the networks on which lemmas are checked."""

import math

import numpy as np
import pandas as pd
import pytest

from elegans import theory
from elegans.experiments.checks import check, checks
from elegans.experiments.claims import Lacking
from elegans.experiments.results import Results
from elegans.studies.xor_two_phases import xor_heavy, xor_lemmas
from elegans.studies.xor_two_phases.reference import heavy_network, on_sphere, signs, steps

THEORY = {claim.id: claim for module in (xor_lemmas, xor_heavy) for claim in module.CLAIMS}


@pytest.mark.parametrize("name", THEORY)
def test_statements_of_theory_hold_in_part_where_one_check_is_violated(name):
    good, bad = check(name, "first", 0.5, 1), check(name, "second", 2, 1)
    other = check("xor/another", "third", 2, 1)
    for rows, expected in (([good, other], "holds"), ([bad, other], "fails"), ([good, bad, other], "holds in part")):
        assert THEORY[name].decide(checks(rows)).verdict == expected
    with pytest.raises(Lacking):
        THEORY[name].decide(checks([other]))


def test_every_statement_of_theory_has_checks_at_the_scale_of_its_rule():
    """Smoke leaves out two that take minutes; the printed B4 and the printed slope bound are violated already there."""
    rows = pd.concat(
        module.analyse(Results(pd.DataFrame(), scale="smoke"))["checks"] for module in (xor_lemmas, xor_heavy)
    )
    assert set(THEORY) - set(rows["claim"]) == {"xor/minibatch-concentration"}
    violated = rows[~rows["satisfied"] & ~rows["check"].str.contains(", run")]
    assert set(violated["check"]) == {"B4 as printed", "exp(-E||aw||) <= g_min, random and aligned networks"}


@pytest.mark.parametrize("power", [10, 12, 14])
@pytest.mark.parametrize("one_sided", [False, True])
def test_built_networks_are_signal_heavy_and_hardly_more_than_that(power, one_sided):
    zeta = math.exp(-power)
    for seed in range(5):
        network = heavy_network(np.random.default_rng(seed), 40, 12, zeta, one_sided=one_sided)
        found = theory.xor_signal_heavy(*network, zeta, scale=1.0)
        assert found.holds
        assert found.members.sum() == 36
        assert theory.xor_smallest_zeta(*network, scale=1.0) > 0.9 * zeta


def test_steps_are_minibatch_sgd_on_both_layers_or_on_one():
    start = on_sphere(np.random.default_rng(0), 6, 5, 0.1)
    assert np.linalg.norm(start[0], axis=1) == pytest.approx(np.abs(start[1]))
    for frozen in (False, True):
        (first, gradient), (second, _) = steps(start, 0.2, 10, 1, np.random.default_rng(1), frozen=frozen)
        x = signs(np.random.default_rng(1), 10, 5)
        assert gradient.weight == pytest.approx(theory.xor_gradients(*first, x).weight)
        assert second[0] == pytest.approx(first[0] - 0.2 * gradient.weight)
        assert second[1] == pytest.approx(first[1] - (0 if frozen else 0.2) * gradient.output)
