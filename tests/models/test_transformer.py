"""The transformer of one query: against a direct implementation, example by example."""

import numpy as np
import pytest
from one_query import compiled, drawn
from scipy import special, stats

import elegans as el
from elegans.errors import TrialError

TASK = el.SparseParity(n=6, k=2)
MODEL = el.ParityTransformer(width=16, heads=3, head_size=4, mlp_width=10)
X = np.random.default_rng(1).choice([-1, 1], (25, 6)).astype(np.float32)


@pytest.fixture(scope="module")
def parameters():
    return drawn(MODEL, TASK)


def direct(parameters, x):
    """Output and attention of one input, in float64, token by token and head by head."""
    e, a = parameters["embedding"], parameters["attention"]
    tokens = [e["sign"][int(sign > 0)] + e["position"][place] for place, sign in enumerate(x)] + [e["class"]]
    tokens = np.array(tokens, np.float64)
    z, attended = tokens[-1].copy(), []
    for query, key, value, output in zip(a["query"], a["key"], a["value"], a["output"], strict=True):
        weights = special.softmax((tokens[-1] @ query) @ (tokens @ key).T / np.sqrt(query.shape[1]))
        z += weights @ (tokens @ value) @ output
        attended.append(weights)
    inner = parameters["hidden"]["weight"] @ z + parameters["hidden"]["bias"]
    gelu = inner * (1 + special.erf(inner / np.sqrt(2))) / 2
    z = z + parameters["residual"]["weight"] @ gelu + parameters["residual"]["bias"]
    return parameters["output"]["weight"] @ z, attended


def test_outputs_and_attention_are_those_of_a_direct_implementation(parameters):
    outputs, attended = zip(*[direct(parameters, x) for x in X], strict=True)
    assert np.asarray(compiled(MODEL.apply)(parameters, X)) == pytest.approx(np.array(outputs), abs=1e-4)
    attention = np.asarray(compiled(MODEL.attention)(parameters, X))
    assert attention.shape == (25, 3, 7)
    assert attention == pytest.approx(np.array(attended), abs=1e-5)
    assert attention.sum(axis=2) == pytest.approx(1, abs=1e-6)


def test_gradients_are_those_of_differences(parameters):
    """Central differences in one random direction over all parameters."""
    import jax

    random = np.random.default_rng(3)
    direction = jax.tree.map(lambda leaf: random.normal(size=leaf.shape) / np.sqrt(leaf.size), parameters)

    def moved(step):
        shifted = jax.tree.map(lambda leaf, by: leaf.astype(np.float64) + step * by, parameters, direction)
        return np.mean([direct(shifted, x)[0] for x in X])

    slope = (moved(1e-4) - moved(-1e-4)) / 2e-4
    gradient = jax.jit(jax.grad(lambda at: MODEL.apply(at, X).mean()))(parameters)
    along = sum(np.vdot(leaf, by) for leaf, by in zip(*map(jax.tree.leaves, (gradient, direction)), strict=True))
    assert along == pytest.approx(slope, rel=1e-3)


def test_initial_arrays_have_their_laws():
    """Kolmogorov-Smirnov; fails for less than one seed in 10^4."""
    model = el.ParityTransformer(width=64, heads=5, head_size=8, mlp_width=48, embedding_scale=0.5)
    drawn = model.initialise(el.random.stream(1, "init"), TASK)
    for array in drawn["embedding"].values():
        assert stats.kstest(array.ravel(), stats.norm(0, 0.5).cdf).pvalue > 1e-5
    for array, fans in [
        *((drawn["attention"][name], 64 + 8) for name in ("query", "key", "value", "output")),
        (drawn["hidden"]["weight"], 64 + 48),
        (drawn["residual"]["weight"], 64 + 48),
        (drawn["output"]["weight"], 64 + 1),
    ]:
        bound = np.sqrt(6 / fans)
        assert stats.kstest(array.ravel(), stats.uniform(-bound, 2 * bound).cdf).pvalue > 1e-5
    assert not drawn["hidden"]["bias"].any() and not drawn["residual"]["bias"].any()


@pytest.mark.slow
def test_a_transformer_learns_a_small_parity_with_adam():
    """(6, 2), width 32; seeds 0 to 9 took 30 to 140 steps."""
    trial = el.Trial(
        task=TASK,
        regime="online",
        model=el.ParityTransformer(width=32, heads=4, head_size=8),
        training=el.Adam(learning_rate=1e-3, steps=600, stopping={"error": 0, "examples": 1000, "every": 10}),
    )
    outcome = el.train(trial)
    assert outcome.state == "solved"


def test_sizes_are_checked():
    with pytest.raises(TrialError, match="heads must be greater than or equal to 1: heads=0"):
        el.ParityTransformer(heads=0)
