"""Sequences, linear attention, fits and probes of in-context regression."""

import math

import numpy as np
import pytest

import elegans as el
from elegans import random
from elegans.errors import TrialError
from elegans.learners.base import LearnerData
from elegans.stopping import StoppingRule
from elegans.studies.in_context_regression.models import LinearAttention, RidgeFit, SequenceTransformer
from elegans.studies.in_context_regression.probes import BayesDistance, DiversityErrors, LevelCrossings, Preconditioner
from elegans.studies.in_context_regression.tasks import LinearRegressionSequences

INDEX = np.arange(20_000, dtype=np.uint32)
STOP = StoppingRule(error=0, examples=1, stop=False)


def task(output="statistics", **fields):
    return LinearRegressionSequences(
        **{"d": 3, "length": 5, "covariance": "linear", "noise": 0.3} | fields, output=output
    )


def inputs(one, hidden=None, name="sample"):
    return one.examples(hidden, random.stream(0, name), INDEX)


def statistics(x, d, n):
    """Return the statistics of sequences of tokens."""
    tokens = x.astype(float).reshape(len(x), n + 1, d + 1)
    inside, labels, query = tokens[:, :-1, :d], tokens[:, :-1, d], tokens[:, -1, :d]
    s = np.einsum("cn,cni->ci", labels, inside) / n
    moment = (np.einsum("cni,cnj->cij", inside, inside) + query[:, :, None] * query[:, None, :]) / n
    return np.column_stack([s, query, np.square(labels).mean(axis=1), moment.reshape(len(x), -1)])


@pytest.mark.parametrize("length", [3, 5, 40])
def test_drawn_statistics_have_the_means_and_covariances_of_sequences(length):
    """Check 11: five standard errors of 20,000 sequences, for all means and second moments with the label."""
    x, y = inputs(task("moments", length=length))
    direct, label = inputs(task("sequence", length=length), name="test")
    drawn = np.column_stack([x, y]).astype(float)
    direct = np.column_stack([statistics(direct, 3, length), label])
    for power in (lambda z: z, lambda z: (z[:, :, None] * z[:, None, :]).reshape(len(z), -1)):
        first, second = power(drawn), power(direct)
        error = np.sqrt((first.var(axis=0) + second.var(axis=0)) / len(INDEX))
        assert (np.abs(first.mean(axis=0) - second.mean(axis=0)) <= 5 * error + 1e-12).all()


def test_statistics_of_fewer_examples_than_dimensions_are_refused():
    """Check 11."""
    with pytest.raises(ValueError, match="length must be at least d for statistics: length=2, d=3"):
        task(length=2)
    assert task("sequence", length=2).input_size == 12


def test_tasks_of_a_pool_are_used_equally_often_and_lie_on_the_sphere():
    one = task(pool=4, vectors="sphere", covariance="white", trace=3.0, noise=0.0)
    pool = one.draw(random.stream(0, "task"))
    assert np.linalg.norm(pool, axis=1) == pytest.approx(np.full(4, math.sqrt(3)), rel=1e-6)
    x, y = inputs(one, pool)
    matches = np.isclose(x[:, 3:6] @ pool.T, y[:, None], atol=1e-5)
    assert (matches.sum(axis=0) / len(INDEX)) == pytest.approx(np.full(4, 0.25), abs=0.02)


def trial(model, regime=None, seed=0, **fields):
    output = "moments" if getattr(model, "blocks", "") == "all" else "statistics"
    fields = {"d": 4, "length": 31, "noise": 0.0, "output": output} | fields
    return el.Trial(task=task(**fields), regime=regime or el.Sample(300), model=model, seed=seed)


@pytest.mark.parametrize("blocks", ["reduced", "all"])
@pytest.mark.parametrize("rank", [None, 1, 2])
def test_descent_by_moments_is_descent_on_sequences(rank, blocks):
    """Check 10: 200 steps, by automatic differentiation of attention as it is written, to 1e-10."""
    import jax
    import jax.numpy as jnp

    attention = LinearAttention(heads=3, rank=rank, blocks=blocks, rate=0.2, init=0.4, steps=200, stopping=STOP)
    one = trial(attention)
    lesson = LearnerData(one.task, one.regime, None, one.key)
    x, y = lesson.examples(np.arange(300, dtype=np.uint32))
    x, d = x.astype(float), 4
    s, query, yy, moment = np.split(x, [d, 2 * d, 2 * d + 1], axis=1)
    if blocks == "all":
        inner = np.zeros((300, d + 1, d + 1))
        inner[:, :d, :d], inner[:, d, d] = moment.reshape(-1, d, d), yy[:, 0]
        inner[:, d, :d] = inner[:, :d, d] = s
    else:
        inner = s[:, None, :]

    def loss(p):
        u = p["key_query"] if rank is None else jnp.einsum("hrb,hrc->hbc", p["key"], p["query"])
        answers = jnp.einsum("ha,nab,hbc,nc->n", p["value"], inner, u, query)
        return 0.5 * ((answers - y) ** 2).mean()

    with jax.enable_x64(True):
        course = attention.begin(lesson)
        p = {name: jnp.asarray(part) for name, part in course.parameters.items()}
        slope = jax.jit(jax.grad(loss))
        for _ in range(200):
            p = jax.tree.map(lambda part, gradient: part - 0.2 * gradient, p, slope(p))
        course.advance(200)
        for name, part in course.parameters.items():
            assert part == pytest.approx(np.asarray(p[name]), abs=1e-10)
        assert course.moments.loss(attention.matrix(course.parameters)) == pytest.approx(2 * float(loss(p)), abs=1e-10)


def test_attention_ends_at_the_best_answer_for_its_sample_and_is_solved_there():
    attention = LinearAttention(heads=4, rate=0.5, init=0.1, steps=4000, stopping=STOP)
    outcome = el.train(trial(attention), probes=[Preconditioner(every=1000), LevelCrossings(every=10)])
    assert outcome.solved
    measured = outcome.measures["preconditioner"]
    assert measured["distance"][0] > 0.9 > 0.3 > measured["distance"][-1]
    assert measured["shares"][-1] == pytest.approx(np.ones(4), abs=0.5)
    crossings = outcome.measures["level-crossings"]["crossings"][-1]
    assert (np.diff(crossings) >= 0).all()


def test_attention_online_descends_the_expected_loss():
    attention = LinearAttention(heads=4, rate=0.5, init=0.1, steps=20_000, stopping=STOP)
    outcome = el.train(trial(attention, el.Online()), probes=[Preconditioner(every=20_000)])
    assert outcome.measures["preconditioner"]["distance"][-1] < 1e-6


def test_attention_refuses_what_it_cannot_learn():
    with pytest.raises(TrialError, match="must read statistics"):
        trial(LinearAttention(steps=1), output="sequence")
    with pytest.raises(TrialError, match="must learn a sample, or fresh tasks"):
        trial(LinearAttention(steps=1), el.Online(), pool=3)
    with pytest.raises(TrialError, match="steps of a linear-attention"):
        LinearAttention()


def fit(d, count, seed=0, pool=80, alpha=2):
    one = LinearRegressionSequences(d=d, length=alpha * d, pool=pool, vectors="sphere", noise=0.1, query_noise=True)
    return el.Trial(task=one, regime=el.Sample(count), model=RidgeFit(), seed=seed)


def test_errors_of_a_fit_are_those_on_sequences():
    one = fit(5, 400, pool=3)
    outcome = el.train(one, probes=[DiversityErrors()])
    measured = outcome.measures["diversity-errors"]
    assert measured["fresh"][0] == pytest.approx(1.1, abs=1e-12)
    for name, hidden in (("fresh", None), ("pool", one.task.draw(one.key("task")))):
        x, y = one.task.examples(hidden, one.key("test"), INDEX)
        errors = (np.asarray(one.model.apply(outcome.parameters, x), float) - y) ** 2
        assert abs(errors.mean() - measured[name][-1]) < 5 * errors.std() / math.sqrt(len(INDEX))


def test_the_error_of_a_fit_peaks_where_sequences_equal_features():
    """Check 17."""
    counts = [40, 70, 90, 110, 130, 200]
    means = [
        np.mean(
            [
                el.train(fit(10, n, seed), probes=[DiversityErrors()]).measures["diversity-errors"]["fresh"][-1]
                for seed in range(5)
            ]
        )
        for n in counts
    ]
    assert counts[int(np.argmax(means))] == 110


def of_each(**fields):
    return task("each", **{"d": 2, "trace": 2.0, "covariance": "white", "query_noise": True, "length": 4} | fields)


def test_labels_of_each_place_are_those_of_the_tokens_and_of_the_query():
    x, y = inputs(of_each())
    tokens = x.reshape(len(x), 5, 3)
    _, last = inputs(task("sequence", d=2, trace=2.0, covariance="white", query_noise=True, length=4))
    assert y.shape == (len(x), 5) and of_each().targets == 5
    np.testing.assert_array_equal(y[:, :4], tokens[:, :4, 2])
    np.testing.assert_array_equal(y[:, 4], last)
    assert (tokens[:, 4, 2] == 0).all()


def test_a_transformer_answers_from_the_examples_before_alone():
    one, model = of_each(), SequenceTransformer(layers=2, width=8, heads=2)
    parameters = model.initialise(random.stream(0, "init"), one)
    tokens = np.random.default_rng(0).normal(size=(1, 5, 3)).astype(np.float32)
    answers = np.asarray(model.apply(parameters, tokens.reshape(1, -1)))[0]
    for place in range(5):
        changed = tokens.copy()
        changed[0, place, 2] += 1  # its own label
        changed[0, place + 1 :] += 1  # and all that comes after
        after = np.asarray(model.apply(parameters, changed.reshape(1, -1)))[0]
        np.testing.assert_allclose(after[: place + 1], answers[: place + 1], atol=1e-5)
        assert place == 4 or abs(after[place + 1] - answers[place + 1]) > 1e-3


def trial_of_each(steps=3, **fields):
    training = {"kind": "adam", "steps": steps, "loss": "square", "batch_size": 16, "learning_rate": 0.003}
    training["stopping"] = {"error": 0, "examples": 100, "every": steps}
    model = SequenceTransformer(layers=1, width=8, heads=2)
    return el.Trial(task=of_each(**fields), regime="online", model=model, training=training)


@pytest.mark.compiles
@pytest.mark.slow
def test_distances_of_answers_from_bayes_predictors_add_up_to_errors():
    probe = BayesDistance(every=3, sequences=4000)
    outcome = el.train(trial_of_each(pool=2, steps=60), probes=[probe])
    measured = {name: np.asarray(values, float) for name, values in outcome.measures[probe.kind].items()}
    for kind, best in (("fresh", "ridge"), ("pool", "known")):  # an answer that is best is orthogonal to differences
        least = measured[f"error_{kind}"] - measured[f"{best}_{kind}"]
        assert len(least) > 2 and np.ptp(least) < 0.15 and np.ptp(measured[f"error_{kind}"]) > 0.3
    assert (measured["known_pool"] != measured["ridge_pool"]).all()
    with pytest.raises(TrialError, match="must measure normal tasks and inputs"):
        el.train(trial_of_each(trace=1.0), probes=[probe])
