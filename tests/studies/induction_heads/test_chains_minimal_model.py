"""The minimal model: against the closed form, and its gradients against the population's."""

import jax
import numpy as np
import pytest

import elegans as el
from elegans import theory
from elegans.errors import TrialError
from elegans.training import Margin

TASK = el.MarkovChains(k=3, length=12)


def drawn(task, count):
    """The first examples of a task."""
    return task.examples(None, el.random.stream(0, "test"), np.arange(count, dtype=np.uint32))


def test_logits_are_those_of_the_closed_form_also_of_shorter_sequences():
    generator, (x, _) = np.random.default_rng(0), drawn(TASK, 20)
    weights = theory.MinimalWeights(generator.normal(size=(3, 3)), generator.normal(size=12))
    parameters = {"pair": weights.pair.astype(np.float32), "position": weights.position.astype(np.float32)}
    model = el.studies.MinimalAttention()
    apply = jax.jit(model.apply)
    assert np.allclose(apply(parameters, x), theory.minimal_logits(weights, x), atol=1e-4)
    assert np.allclose(apply(parameters, x[:, :5]), theory.minimal_logits(weights, x[:, :5]), atol=1e-4)


@pytest.mark.parametrize(("make", "order"), [(theory.minimal_bigram, 2), (theory.minimal_unigram, 1)])
def test_fact_8_3_holds_exactly(make, order):
    x, weights = drawn(TASK, 50)[0], make(3, 12)
    logits = jax.jit(el.studies.MinimalAttention().apply)(weights._asdict(), x)
    assert np.array_equal(logits, theory.ngram_counts(x, 3, order))


def test_the_future_does_not_matter():
    parameters = {"pair": np.random.default_rng(0).normal(size=(3, 3)), "position": np.arange(12.0)}
    x, places = np.repeat(drawn(TASK, 1)[0], 13, axis=0), np.arange(12)
    x[places, places] = (x[places, places] + 1) % 3
    *after, before = np.asarray(jax.jit(el.studies.MinimalAttention().apply)(parameters, x))
    for place, changed in enumerate(after):
        assert np.array_equal(changed[:place], before[:place])


def test_initial_weights_are_constant_but_for_the_diagonal_and_not_all_zero():
    parameters = el.studies.MinimalAttention(pair=0.5).initialise(el.random.stream(0, "init"), TASK)
    assert {name: (array.shape, set(array.ravel())) for name, array in parameters.items()} == {
        "pair": ((3, 3), {np.float32(0.5)}),
        "position": ((12,), {np.float32(0.02)}),
    }
    pair = el.studies.MinimalAttention(pair=0.5, diagonal=1).initialise(el.random.stream(0, "init"), TASK)["pair"]
    assert np.array_equal(pair, np.eye(3) + 0.5)
    with pytest.raises(TrialError, match="pair and position must not both be 0"):
        training = el.SGD(steps=1, loss="cross-entropy")
        el.Trial(task=TASK, regime=el.Online(), model=el.studies.MinimalAttention(position=0), training=training)


def test_gradients_of_the_linear_margin_loss_tend_to_the_population_s():
    """Means over 16,384 sequences; each entry within 5 standard errors: error rate 2 x 10^-5 for 34 entries."""
    task, model = el.MarkovChains(k=2, length=30), el.studies.MinimalAttention(pair=0.02)
    x, y = drawn(task, 2**14)
    parameters = model.initialise(el.random.stream(0, "init"), task)
    loss = Margin(delta="linear")

    @jax.jit
    def gradients(x, y):
        def objective(parameters, x, y):
            return loss.value(model.apply(parameters, x[None]), y[None]).mean()

        return jax.vmap(jax.grad(objective), in_axes=(None, 0, 0))(parameters, x, y)

    blocks = [gradients(x[at : at + 4096], y[at : at + 4096]) for at in range(0, len(x), 4096)]
    exact = theory.minimal_gradients(theory.flat_tensor(30), theory.minimal_constant(2, 30, 0.02, 0.02))
    for name, expected in exact._asdict().items():
        found = -np.concatenate([np.asarray(block[name], np.float64) for block in blocks])
        error = found.std(axis=0) / np.sqrt(len(found))
        assert (abs(found.mean(axis=0) - expected) < 5 * error + 1e-6).all()
