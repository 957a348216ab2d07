"""Distances, phases and attention scores."""

import math

import numpy as np
import pytest

import elegans as el
from elegans import theory


def laws(seed, *shape):
    return np.random.default_rng(seed).dirichlet(np.ones(shape[-1]), size=shape[:-1])


def test_divergences_are_sums_of_logarithms():
    assert theory.kl_divergence([0.5, 0.5], [0.25, 0.75]) == pytest.approx(0.5 * math.log(2) + 0.5 * math.log(2 / 3))
    assert theory.kl_divergence([0.0, 1.0], [0.5, 0.5]) == pytest.approx(math.log(2))
    assert theory.kl_divergence([0.5, 0.5], [0.0, 1.0]) == math.inf


def test_loss_curves_have_a_value_for_each_position():
    true, predicted = laws(0, 6, 5, 3), laws(1, 6, 5, 3)
    found = theory.chain_loss(true, predicted)
    assert found.divergence == pytest.approx((true * np.log(true / predicted)).sum(axis=2).mean(axis=0))
    assert found.cross_entropy == pytest.approx(-(true * np.log(predicted)).sum(axis=2).mean(axis=0))


def test_distances_have_a_direction():
    strategy, predicted = laws(0, 6, 5, 3), laws(1, 6, 5, 3)
    forth = theory.strategy_distances(predicted, {"bigram": strategy})
    back = theory.strategy_distances(predicted, {"bigram": strategy}, reverse=True)
    assert forth == {"bigram": pytest.approx(theory.kl_divergence(strategy[:, -1], predicted[:, -1]).mean())}
    assert back == {"bigram": pytest.approx(theory.kl_divergence(predicted[:, -1], strategy[:, -1]).mean())}


def test_strategies_are_as_far_from_each_other_as_known():
    """0.098 and 0.182 from unigram to bigram, 0.078 and 0.144 back, for two and three symbols; 2000 sequences, within
    4.5 standard errors and half a unit of the last digit: one failure in 3 x 10^4 runs."""
    key, index = el.random.stream(0, "test"), np.arange(2000, dtype=np.uint32)
    for k, forth, back in ((2, 0.098, 0.078), (3, 0.182, 0.144)):
        tokens, _ = el.MarkovChains(k=k, length=100).examples(None, key, index)
        named = theory.chain_strategies(tokens, k)
        for reverse, expected in ((False, forth), (True, back)):
            pair = (named["unigram"][:, -1], named["bigram"][:, -1])[:: -1 if reverse else 1]
            error = theory.kl_divergence(*pair).std() / math.sqrt(2000)
            found = theory.strategy_distances(named["bigram"], {"unigram": named["unigram"]}, reverse=reverse)
            assert abs(found["unigram"] - expected) < 4.5 * error + 0.0005


def test_phases_are_the_closest_strategies():
    distances = {
        "uniform": [0.0, 0.2, 0.3, 0.3, 0.4],
        "unigram": [0.2, 0.0, 0.0, 0.1, 0.2],
        "bigram": [0.3, 0.2, 0.1, 0.0, 0.0],
    }
    times = [0, 10, 20, 40, 80]
    phases = theory.strategy_phases(distances)
    assert phases == ["uniform", "unigram", "unigram", "bigram", "bigram"]
    assert theory.phase_boundaries(times, phases) == [(0, "uniform"), (10, "unigram"), (40, "bigram")]
    assert theory.plateau_length(times, phases) == 30
    assert theory.plateau_length(times, phases, "bigram") == 40
    assert theory.plateau_length(times, phases, "trigram") == 0


def test_the_transition_is_where_the_loss_passes_the_middle():
    assert theory.transition_step([0, 5, 9], [0.2, 0.09, 0.04], before=0.09, after=0.01) == 9
    assert theory.transition_step([0, 5, 9], [0.2, 0.09, 0.06], before=0.09, after=0.01) is None


def test_the_parity_bias_leaves_out_the_first_coordinate():
    profile = np.array([9.0, 1, 0, 2, 0, 3, 0, 100])
    assert theory.parity_bias(profile) == pytest.approx(2)
    assert theory.parity_bias(np.stack([profile, -profile])) == pytest.approx([2, -2])


def test_attention_scores_of_known_patterns():
    tokens = np.array([[0, 1, 0, 2, 0]])
    back = np.eye(5, k=-1)
    back[0, 0] = 1
    assert theory.previous_token_mass(back) == 1
    uniform = np.tril(np.ones((5, 5))) / np.arange(1, 6)[:, None]
    assert theory.previous_token_mass(uniform) == pytest.approx((1 / 2 + 1 / 3 + 1 / 4 + 1 / 5) / 4)
    found = theory.induction_mass(uniform[None], tokens, 3)
    assert found == pytest.approx((2 / 5, 2 / 5))
    induction = np.eye(5)[None].copy()
    induction[0, 4] = [0, 0.5, 0, 0.5, 0]
    assert theory.induction_mass(induction, tokens, 3) == pytest.approx((1, 2 / 5))


REFUSED = [
    (lambda: theory.strategy_phases({}), "distances must have one length"),
    (lambda: theory.strategy_phases({"a": [1], "b": [1, 2]}), "distances must have one length: names=.'a', 'b'."),
    (lambda: theory.phase_boundaries([1], ["a", "b"]), "a time for each checkpoint: times=1, found=2"),
    (lambda: theory.parity_bias([1.0] * 6), r"at least 7 coordinates: shape=\(6,\)"),
    (lambda: theory.previous_token_mass(np.ones((3, 4))), r"must be square.*: shape=\(3, 4\)"),
    (lambda: theory.induction_mass(np.ones((1, 4, 4)), [[0, 1, 0]], 2), r"shape=\(1, 4, 4\), tokens=\(1, 3\)"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_what_cannot_be_measured_is_refused(call, message):
    with pytest.raises(el.TheoryError, match=message):
        call()
