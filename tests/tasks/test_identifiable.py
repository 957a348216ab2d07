"""Samples that are drawn anew until they identify the support, whoever trains on them."""

import itertools

import numpy as np
import pytest

import elegans as el
from elegans.errors import TrialError
from elegans.tasks import And, IdentifiableSample, Sample, SparseBoolean, identifiable
from elegans.training.engines import ChunkRequest, choose

TASK = SparseBoolean(n=10, k=3, function="and", p=And().balancing_bias(3))
SIZE = 14


def trial(seed, size=SIZE, **fields):
    training = el.SGD(steps=5, batch_size=size, batches="epochs", loss="logistic")
    given = {"task": TASK, "regime": IdentifiableSample(size), "model": el.MLP(width=4), "training": training}
    return el.Trial(**{**given, **fields}, seed=seed)


def sample(one):
    """Return a trial's sample, as training sees it."""
    hidden = one.task.draw(one.key("task"))
    return hidden, *one.task.examples(hidden, one.key("sample"), np.arange(one.regime.size, dtype=np.uint32))


def by_brute_force(x, y):
    """Return the triples whose conjunction has all labels."""
    return [triple for triple in itertools.combinations(range(x.shape[1]), 3) if _agrees(x[:, triple], y)]


def _agrees(bits, y):
    return np.array_equal((bits > 0).all(axis=1), y > 0)


def test_a_sample_leaves_the_hidden_support_alone():
    """The filter is that of brute force over all C(10, 3) supports; 40 seeds, about half of which draw anew."""
    redrawn = 0
    for seed in range(40):
        hidden, x, y = sample(trial(seed))
        assert by_brute_force(x, y) == [tuple(hidden)]
        plain = sample(trial(seed, regime=Sample(SIZE)))
        rejected = IdentifiableSample(SIZE).rejected(TASK, seed)
        assert (len(by_brute_force(*plain[1:])) > 1) == (rejected > 0)
        assert np.array_equal(plain[1], x) == (rejected == 0)
        assert np.array_equal(plain[0], hidden)
        redrawn += rejected > 0
    assert 0 < redrawn < 40


def test_draws_before_the_one_that_counts_leave_several():
    seed = next(seed for seed in range(40) if IdentifiableSample(SIZE).rejected(TASK, seed) > 1)
    hidden, stream = TASK.draw(el.random.stream(seed, "task")), el.random.stream(seed, "sample")
    for draw in range(1, IdentifiableSample(SIZE).rejected(TASK, seed)):
        drawn = TASK.examples(hidden, stream.fold(draw), np.arange(SIZE, dtype=np.uint32))
        assert len(by_brute_force(*drawn)) > 1


@pytest.mark.slow
@pytest.mark.parametrize("restart", [0, 2])
def test_engines_train_on_the_sample_that_was_drawn_anew(restart):
    """A full batch: the first loss is that of this start's initial network on that very sample."""
    seed = next(seed for seed in range(40) if IdentifiableSample(SIZE).rejected(TASK, seed))
    one = trial(seed).replace("restart", restart)
    engine = choose(one)
    _, chunk = engine.advance(engine.init([one]), ChunkRequest.of(1))
    _, x, y = sample(one)
    before = one.model.initialise(one.key("init"), one.task)
    loss = np.log1p(np.exp(-y * np.asarray(one.model.apply(before, x)))).mean()
    assert chunk.intervals[0].loss[0] == pytest.approx(loss, abs=1e-6)
    other = trial(seed, regime=Sample(SIZE))
    _, x, y = sample(other)
    assert np.log1p(np.exp(-y * np.asarray(one.model.apply(before, x)))).mean() != pytest.approx(loss, abs=1e-4)


def test_noise_and_other_tasks_are_refused():
    with pytest.raises(TrialError, match=r"no noise in its labels: noise=0\.1"):
        trial(0, task=TASK.replace("noise", 0.1))
    with pytest.raises(TrialError, match="must have a sparse Boolean function: task='sparse-parity'"):
        trial(0, task=el.SparseParity(n=10, k=3))


def test_a_sample_that_identifies_nothing_is_an_error(monkeypatch):
    """Bits that are always 1: all supports have the same labels."""
    monkeypatch.setattr(identifiable, "MOST_DRAWS", 20)
    with pytest.raises(TrialError, match="within 20 draws: size=2, n=10, k=3, seed=0"):
        IdentifiableSample(2).rejected(TASK.replace("p", 1.0), 0)


def test_a_restart_has_the_same_problem_and_another_learner():
    first, again = trial(0), trial(0).replace("restart", 1)
    assert first.cell != again.cell
    for stream in ("task", "sample", "test", "noise", "probe"):
        assert again.key(stream) == first.key(stream)
    for stream in ("init", "batches", "dropout"):
        keys = {trial(0).replace("restart", restart).key(stream) for restart in range(5)}
        assert len(keys) == 5 and first.key(stream) in keys


def test_a_restart_is_read_back_from_its_record():
    one = trial(0, regime=Sample(SIZE)).replace("restart", 2)
    assert el.Trial.from_json(one.to_json()) == one
