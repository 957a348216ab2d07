"""A user's own code that draws the same random numbers twice is refused before anything trains."""

import re
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pydantic
import pytest

import elegans as el
from elegans.experiments import find, registry
from elegans.extensions import parts
from elegans.sweeps import dispatcher, runner
from elegans.tasks.base import NoisyLabels
from elegans.training.rehearsal import idle_fields, rehearse

OVERLAP = "two draws from one key must not share a counter"


class Restless(el.SGD):
    sigma: float = 0.1


class Faster(el.SGD):
    learning_rate: float = 1.0


class Clipped(Restless):
    def clipped(self, gradients):
        return gradients


class Halved(NoisyLabels, el.ModularAddition):
    half: bool = True


class Checked(el.SGD):
    sigma: float = 0.1

    @pydantic.field_validator("sigma")
    @classmethod
    def positive(cls, value):
        return value


@pytest.mark.parametrize(
    ("cls", "fields"),
    [(Restless, ["sigma"]), (Halved, ["half"]), (Faster, []), (Clipped, []), (Checked, []), (el.Adam, [])],
)
def test_only_a_class_without_any_method_of_its_own_has_fields_that_nothing_reads(cls, fields):
    assert idle_fields(cls) == fields


@pytest.mark.slow
def test_a_field_that_nothing_reads_is_noted_in_a_line(capsys):
    trial = el.Trial(
        task=el.SparseParity(n=5, k=2), regime=el.Online(), model=el.MLP(width=2), training=Restless(steps=1)
    )
    el.train(trial)
    said = "note: Restless adds sigma to SGD but no method, so sigma changes nothing in training\n"
    assert said in capsys.readouterr().err


def in_jax(array):
    return isinstance(array, jax.Array)


def other(key, overlapping):
    """Return the key of a second draw, which shares the counters of the first or does not."""
    return key if overlapping else key.fold(1)


class Distracted(el.Task):
    """The first of n signs, flipped by a second draw, which may overlap under NumPy, under JAX, or in vmapped code."""

    n: int = 10
    overlapping: str = ""

    @property
    def input_size(self):
        return self.n

    def examples(self, hidden, key, index):
        x = el.random.rademacher(key, index, self.n)
        second = other(key, self.overlapping == ("jax" if in_jax(index) else "numpy"))
        if self.overlapping == "vmap" and in_jax(index):
            noise = jax.vmap(lambda i: el.random.uniform(key, i))(index)
        elif self.overlapping == "scan" and in_jax(index):
            noise = jax.lax.scan(lambda carry, i: (carry, el.random.uniform(key, i)), 0, index)[1]
        elif self.overlapping == "jit" and in_jax(index):
            noise = jax.jit(el.random.uniform)(key, index)
        elif self.overlapping == "fold":
            noise = el.random.uniform(key.fold(1), index) + el.random.uniform(key.fold(1), index)
        elif self.overlapping == "key-of-jax":
            noise = jax.random.uniform(key.for_jax(), index.shape)
        elif self.overlapping == "twice-in-jax":
            typed = key.fold(1).for_jax()
            noise = jax.random.uniform(typed, index.shape) + jax.random.normal(typed, index.shape)
        elif self.overlapping == "neighbours":
            noise = el.random.uniform(key.fold(1), index) + el.random.uniform(key.fold(1), index + 1)
        else:
            noise = el.random.uniform(second, index)
        return x, x[:, 0] * (1 - 2 * (noise < 0.1).astype(np.float32))


class NoisyLinear(el.Model):
    """f(x) = w . x, with noise on the weights, and on the inputs in training."""

    overlapping: str = ""

    def initialise(self, key, task):
        place = np.arange(task.input_size, dtype=np.uint32)
        if self.overlapping == "jit":
            draw = jax.jit(lambda place: el.random.normal(key, place) + el.random.uniform(key, place))
            return {"weight": np.asarray(draw(place))}
        noise = el.random.normal(other(key, self.overlapping == "numpy"), place)
        return {"weight": el.random.uniform_signed(key, place) + noise}

    def apply(self, parameters, x):
        return x @ parameters["weight"]

    def train(self, parameters, x, key):
        place = np.arange(x.shape[1], dtype=np.uint32)
        if self.overlapping == "later examples":
            row = jnp.arange(len(x))
            noise = el.random.normal(key, row) + el.random.normal(key, row + 8)
            return self.apply({"weight": parameters["weight"].at[0].add(0)}, x) + noise
        if self.overlapping == "vmapped while":

            def wait(row):
                start = el.random.uniform(key, row)
                return jax.lax.while_loop(lambda u: u < 2, lambda u: 2 + el.random.uniform(key, row) + 0 * u, start)

            return self.apply(parameters, x) + jax.vmap(wait)(jnp.arange(len(x)))
        if self.overlapping == "vmapped keys":
            rows = jnp.arange(len(x))
            noise = jax.vmap(lambda row: jax.random.uniform(key.fold(row).for_jax()))(rows)
            noise += jax.vmap(lambda row: el.random.uniform(key.fold(row), 0))(rows)
            return self.apply(parameters, x) + noise
        noise = el.random.normal(other(key, self.overlapping == "jax"), place)
        return self.apply(parameters, x * el.random.uniform(key, place) + noise)


class ScatteredInit(el.Init, kind="scattered"):
    """Signs times uniform sizes."""

    overlapping: bool = False

    def weights(self, key, width, n):
        index = np.arange(width, dtype=np.uint32)
        signs = el.random.rademacher(key, index, n)
        lanes = np.arange(n, dtype=np.uint32)
        return signs * el.random.uniform(other(key, self.overlapping), index[:, None], lane=lanes)


class JitteredHinge(el.Loss):
    """The hinge loss of outputs with noise, from a key of its own."""

    overlapping: bool = False

    def value(self, output, label):
        key, index = el.random.stream(0, "noise"), jnp.arange(output.shape[0])
        noise = el.random.normal(key, index) + el.random.normal(other(key, self.overlapping), index)
        return jnp.maximum(1 - label * (output + noise), 0)


class NoisySGD(el.SGD):
    """Gradient descent with noise on each parameter, whose counters may be those of other parameters or steps."""

    overlapping: str = ""

    def optimiser(self, factor):
        def update(gradients, step, parameters=None):
            key, moved = el.random.stream(0, "noise"), []
            for place, leaf in enumerate(jax.tree.leaves(gradients)):
                own = key if self.overlapping == "steps" else key.fold(step)
                own = own if self.overlapping == "parameters" else own.fold(place)
                noise = el.random.normal(own, jnp.arange(leaf.size)).reshape(leaf.shape)
                moved.append(-0.1 * factor * (leaf + 0.01 * noise))
            return jax.tree.unflatten(jax.tree.structure(gradients), moved), step + 1

        return optax.GradientTransformation(lambda _: jnp.uint32(0), update)


class RandomDirection(el.Probe):
    """The component of the weights along a random direction."""

    overlapping: str = ""

    def measure(self, snapshot):
        weight, key = snapshot.parameters["hidden"]["weight"], snapshot.key("probe")
        index = np.arange(weight.shape[1], dtype=np.uint32)
        index = index if self.overlapping != "jax" else jnp.asarray(index)
        direction = el.random.normal(key, index) + el.random.normal(other(key, bool(self.overlapping)), index)
        # what the task draws for its examples may be asked for as often as one likes
        x, again = snapshot.examples("test", 8)[0], snapshot.examples("test", 8)[0]
        return {"along": float((weight @ np.asarray(direction)).mean() + (x - again).sum())}


def trial(**changes):
    parts = {
        "task": el.SparseParity(n=10, k=1),
        "regime": el.Online(),
        "model": el.MLP(width=4),
        "training": el.SGD(steps=2, stopping=el.StoppingRule(examples=20, every=1)),
    }
    return el.Trial(**{**parts, **changes})


CASES = {
    **{
        f"task, {how}": (lambda how=how: trial(task=Distracted(overlapping=how)), ())
        for how in ("numpy", "jax", "vmap", "scan", "jit", "fold", "key-of-jax", "neighbours")
    },
    "model, numpy": (lambda: trial(model=NoisyLinear(overlapping="numpy")), ()),
    **{
        f"model, {how}": (lambda how=how: trial(model=NoisyLinear(overlapping=how)), ())
        for how in ("jit", "later examples", "vmapped while", "vmapped keys")
    },
    "model, jax": (lambda: trial(model=NoisyLinear(overlapping="jax")), ()),
    "init": (lambda: trial(model=el.MLP(width=4, init=ScatteredInit(overlapping=True))), ()),
    "loss": (lambda: trial(training=el.SGD(steps=2, loss=JitteredHinge(overlapping=True))), ()),
    "optimiser, parameters": (lambda: trial(training=NoisySGD(steps=2, overlapping="parameters")), ()),
    "optimiser, steps": (lambda: trial(training=NoisySGD(steps=2, overlapping="steps")), ()),
    "probe, numpy": (trial, [RandomDirection(overlapping="numpy")]),
    "probe, jax": (trial, [RandomDirection(overlapping="jax")]),
}


@pytest.mark.parametrize(("make", "probes"), CASES.values(), ids=CASES)
def test_overlapping_draws_are_refused_before_training(make, probes, tmp_path):
    with pytest.raises(
        el.errors.TrialError, match=rf"{OVERLAP}: .*test_rehearsal.py, line .*; make one .* key.fold\(1\)"
    ):
        el.train(make(), probes=probes)
    store = tmp_path / "runs.db"
    with pytest.raises(el.errors.TrialError, match=OVERLAP):
        el.run(el.grid(make(), {}, seeds=1), store, probes=probes)
    assert not store.exists()


class Column(el.Model):
    """f(x) = w . x as a column, as several outputs, or as the sum over all examples."""

    shape: tuple[int, ...] = (-1, 1)
    count: int = 1

    def initialise(self, key, task):
        return {"weight": el.random.uniform(key, np.arange(task.input_size, dtype=np.uint32))}

    def apply(self, parameters, x):
        outputs = x @ parameters["weight"]
        return (outputs[:, None] * np.ones(self.count, np.float32)).reshape(self.shape) if self.shape else outputs.sum()

    def outputs(self, task):
        return self.count


@pytest.mark.parametrize(
    ("model", "loss", "right"),
    [
        (Column(), "hinge", (256,)),  # JAX would train on the mean loss over all pairs of an output and a label
        (Column(shape=()), "hinge", (256,)),
        (Column(count=2, shape=(2, -1)), "cross-entropy", (256, 2)),
        (Column(shape=(-1,)), "hinge", None),
        (Column(count=2, shape=(-1, 2)), "cross-entropy", None),
    ],
)
def test_outputs_of_another_shape_than_the_labels_are_refused_before_training(model, loss, right):
    own = trial(model=model, training=el.SGD(steps=2, loss=loss, stopping=el.StoppingRule(examples=20)))
    if right is None:
        assert el.train(own).steps == 2
        return
    rule = f"apply of model 'column' must return outputs of shape {right} for 256 examples of task 'sparse-parity': "
    with pytest.raises(el.errors.TrialError, match=re.escape(rule + "shape (")):
        el.train(own)


class ColumnOfLabels(el.Task):
    """Labels of shape (count, 1)."""

    @property
    def input_size(self):
        return 3

    def examples(self, hidden, key, index):
        x = el.random.rademacher(key, index, 3)
        return x, x[:, :1]


class MeanSquare(el.Loss):
    """The mean over the examples."""

    def value(self, output, label):
        return ((output - label) ** 2).mean()


def test_labels_of_another_shape_than_the_outputs_are_refused_before_training():
    rule = "labels of task 'column-of-labels' must have shape (256,) for 256 examples and model 'mlp': shape (256, 1)"
    with pytest.raises(el.errors.TrialError, match=re.escape(rule)):
        el.train(trial(task=ColumnOfLabels()))


def test_a_loss_of_a_whole_minibatch_is_refused_before_training():
    rule = "value of loss 'mean-square' must return one value for each of 256 examples: shape ()"
    with pytest.raises(el.errors.TrialError, match=re.escape(rule)):
        el.train(trial(training=el.SGD(steps=2, loss=MeanSquare())))


def test_a_key_of_jax_is_used_once():
    with pytest.raises(el.errors.TrialError, match="two draws of jax.random must not share a key: .*jax.random.split"):
        el.train(trial(task=Distracted(overlapping="twice-in-jax")))


def test_one_draw_does_not_use_a_counter_twice():
    class Constant(el.Init, kind="one-draw-for-all"):
        def weights(self, key, width, n):
            return el.random.uniform(key, np.zeros((width, n), np.uint32))

    with pytest.raises(
        el.errors.TrialError, match="a draw must not use a counter twice: uniform .* index 0, lane 0 more"
    ):
        el.train(trial(model=el.MLP(width=4, init=Constant())))


@pytest.mark.slow
def test_folded_draws_are_taken_in_all_six_kinds():
    own = trial(
        task=Distracted(),
        model=el.MLP(width=4, init=ScatteredInit()),
        training=NoisySGD(steps=2, loss=JitteredHinge(), stopping=el.StoppingRule(examples=20, every=1)),
    )
    assert el.train(own, probes=[RandomDirection(every=1)]).state in ("solved", "unsolved")
    assert el.train(trial(task=Distracted(), model=NoisyLinear())).state in ("solved", "unsolved")


@pytest.mark.slow
def test_a_probe_may_ask_for_the_examples_of_a_split_more_often_than_there_are():
    """They are those of one random order, the first ones again after the last."""

    class Asking(el.Probe, kind="asking-for-a-split"):
        def measure(self, snapshot):
            x, again = (snapshot.examples("test", 40)[0] for _ in range(2))
            return {"difference": float(abs(x - again).sum())}

    split = trial(task=el.SparseParity(n=5, k=1), regime=el.Split(0.5))
    assert el.train(split, probes=[Asking(every=1)]).measures["asking-for-a-split"]["difference"][0] == 0


def test_a_field_that_decides_lanes_is_looked_at_with_each_value():
    class Fraction(el.Init, kind="a-fraction-of-lanes"):
        fraction: float = 0.1

        def weights(self, key, width, n):
            index, lanes = np.arange(width)[:, None], np.arange(int(n * self.fraction))
            rest = el.random.uniform(key, index, lane=np.arange(n // 2, n))
            return np.concatenate([el.random.uniform(key, index, lane=lanes), rest], axis=1)[:, :1] + np.zeros(
                (width, n)
            )

    rehearse(trial(model=el.MLP(width=4, init=Fraction())))
    with pytest.raises(el.errors.TrialError, match=OVERLAP):
        rehearse(trial(model=el.MLP(width=4, init=Fraction(fraction=0.9))))


def test_native_engines_need_no_jax_for_a_probe_of_ones_own(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(el.errors.TrialError, match=OVERLAP):
        rehearse(trial(), [RandomDirection(overlapping="numpy")])


def test_lanes_that_overlap_at_some_sizes_are_refused_at_these():
    """Signs take a lane for each 64 coordinates: lane 1 is free below."""

    class Marked(el.Task, kind="marked-by-lane-1"):
        n: int

        @property
        def input_size(self):
            return self.n

        def examples(self, hidden, key, index):
            x = el.random.rademacher(key, index, self.n)
            return x, 1 - 2 * (el.random.uniform(key, index, lane=1) < 0.5).astype(np.float32)

    sweep = el.grid(trial(task=Marked(n=64)), {"task.n": [10, 64, 65]}, seeds=1)
    rehearse(sweep.cells[1])
    with pytest.raises(
        el.errors.TrialError, match=f"{OVERLAP}: rademacher .* and later uniform .* use index 0, lane 1"
    ):
        el.run(sweep)


def test_own_code_is_rehearsed_once():
    calls = []

    class Counted(el.Init, kind="counted-calls"):
        def weights(self, key, width, n):
            calls.append(key)
            return el.random.uniform_signed(key, np.arange(width)[:, None], lane=np.arange(n))

    own = trial(model=el.MLP(width=4, init=Counted()))
    rehearse(own)
    assert len(calls) == 1
    for seed in range(3):
        rehearse(own.with_seed(seed))
        rehearse(own.replace("training.learning_rate", 0.1 + seed))
    assert len(calls) == 1


def test_code_is_rehearsed_only_where_trials_are_missing(tmp_path, monkeypatch):
    rehearsed = []
    for module in (runner, dispatcher):
        monkeypatch.setattr(module, "rehearse", lambda cell, probes: rehearsed.append(cell.model.width))
    store = tmp_path / "runs.db"
    for widths, seeds, expected in (([3, 4], 2, {3, 4}), ([3, 4], 2, set()), ([3, 4, 5], 2, {5}), ([3, 4], 3, {3, 4})):
        rehearsed.clear()
        el.run(el.grid(trial(), {"model.width": widths}, seeds=seeds), store)
        assert set(rehearsed) == expected


@pytest.fixture(scope="module")
def rehearsed():
    """The classes of cells and of their probes that were rehearsed, whatever their experiment."""
    return set()


@pytest.mark.slow
@pytest.mark.parametrize("name", registry.entries())
def test_shipped_parts_draw_no_counter_twice(name, rehearsed):
    """Each combination of the classes of parts and probes that a smoke cell has, once."""
    experiment = find(name)
    scale = experiment.scale("smoke" if "smoke" in experiment.scales else next(iter(experiment.scales)))
    for cell in scale.cells(1).cells:
        probes = experiment.probes_of(cell)
        classes = *map(type, parts(cell)), *map(type, probes)
        if classes not in rehearsed:
            rehearsed.add(classes)
            rehearse(cell, probes, chosen=lambda _: True)
