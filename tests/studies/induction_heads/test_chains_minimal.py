"""The minimal model: counts as special weights, and population gradients against enumeration of all sequences."""

import itertools

import numpy as np
import pytest

import elegans as el
from elegans import theory
from elegans.tasks.chains import stationary_distribution


def test_logits_are_those_of_a_triple_loop():
    generator = np.random.default_rng(0)
    tokens, pair, position = generator.integers(3, size=(2, 6)), generator.normal(size=(3, 3)), generator.normal(size=8)
    found = theory.minimal_logits(theory.MinimalWeights(pair, position), tokens)
    for row, p in itertools.product(range(2), range(6)):
        expected = np.zeros(3)
        for later in range(p + 1):
            for earlier in range(later + 1):
                expected[tokens[row, later]] += position[later - earlier] * pair[tokens[row, p], tokens[row, earlier]]
        assert found[row, p] == pytest.approx(expected)


@pytest.mark.parametrize("k", [2, 3, 5])
def test_the_minimal_model_counts_exactly(k):
    tokens = np.random.default_rng(k).integers(k, size=(20, 40))
    bigrams = theory.minimal_logits(theory.minimal_bigram(k, 40), tokens)
    unigrams = theory.minimal_logits(theory.minimal_unigram(k, 40), tokens)
    assert np.array_equal(bigrams, theory.ngram_counts(tokens, k, 2))
    assert np.array_equal(unigrams, theory.ngram_counts(tokens, k, 1))


def affine_loss(chain, weights, length):
    """The margin loss over all sequences and labels, every hinge being active, without the constant margin."""
    k, start, total = len(chain), stationary_distribution(chain[None])[0], 0.0
    sequences = np.array(list(itertools.product(range(k), repeat=length + 1)))
    logits = theory.minimal_logits(weights, sequences[:, :-1])
    chances = start[sequences[:, 0]] * chain[sequences[:, :-1], sequences[:, 1:]].prod(axis=1)
    right = np.take_along_axis(logits, sequences[:, 1:, None], axis=2)[:, :, 0]
    total = (chances[:, None] * (logits.mean(axis=2) - right)).sum()
    return total / length


@pytest.mark.parametrize(("k", "length"), [(2, 5), (3, 4), (4, 2)])
def test_the_tensor_is_the_loss_over_all_sequences(k, length):
    generator = np.random.default_rng(k)
    chain = generator.dirichlet(np.ones(k), size=k)
    tensor = theory.chain_tensor(chain, length)
    for _ in range(3):
        weights = theory.MinimalWeights(generator.normal(size=(k, k)), generator.normal(size=length))
        loss = -np.einsum("j,ml,jml", weights.position, weights.pair, tensor)
        assert affine_loss(chain, weights, length) == pytest.approx(loss)


def test_a_large_margin_makes_the_loss_affine():
    """At W = c 1 1^T, v = c 1 logits are at most c^2 t(t+1)/2: with a margin of that size no hinge is inactive."""
    tokens, length, scale = np.array(list(itertools.product(range(2), repeat=6))), 6, 0.7
    logits = theory.minimal_logits(theory.minimal_constant(2, length, scale, scale), tokens)
    assert logits.min() >= 0
    assert logits.max() == pytest.approx(scale**2 * length * (length + 1) / 2)


def test_gradients_are_derivatives_of_a_bilinear_loss():
    generator = np.random.default_rng(0)
    tensor = theory.chain_tensor(generator.dirichlet(np.ones(3), size=(10, 3)), 6).mean(axis=0)
    weights = theory.MinimalWeights(generator.normal(size=(3, 3)), generator.normal(size=6))
    found = theory.minimal_gradients(tensor, weights)
    assert (weights.pair * found.pair).sum() == pytest.approx(weights.position @ found.position)
    nothing = theory.minimal_gradients(tensor, theory.MinimalWeights(np.zeros((3, 3)), weights.position))
    assert np.array_equal(nothing.position, np.zeros(6))


def test_a_step_moves_both_layers_from_where_they_were():
    tensor = theory.chain_tensor([[0.3, 0.7], [0.2, 0.8]], 4)
    before = theory.minimal_constant(2, 4, 0.5, 2.0)
    descent = theory.minimal_gradients(tensor, before)
    after = theory.minimal_step(tensor, before, 0.1, pair_decay=1.0, position_decay=0.25)
    assert after.pair == pytest.approx(0.1 * descent.pair)
    assert after.position == pytest.approx(1.5 + 0.1 * descent.position)


REFUSED = [
    (lambda: theory.minimal_bigram(1, 9), "k must be at least 2: k=1"),
    (lambda: theory.minimal_unigram(2, 1), "length must be at least 2: length=1"),
    (lambda: theory.minimal_logits(theory.minimal_bigram(2, 3), [[0, 1, 0, 1]]), "longer than v: length=4, known=3"),
    (lambda: theory.chain_tensor([[0.5, 0.4], [0.5, 0.5]], 3), "rows of a chain must be probabilities that sum to 1"),
    (lambda: theory.chain_tensor([[0.5, 0.5]], 3), r"chains must be of shape \(..., k, k\): shape=\(1, 2\)"),
    (lambda: theory.minimal_gradients(np.ones((3, 2, 2)), theory.minimal_bigram(2, 4)), r"tensor=\(3, 2, 2\)"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_what_the_minimal_model_does_not_cover_is_refused(call, message):
    with pytest.raises(el.errors.TheoryError, match=message):
        call()
