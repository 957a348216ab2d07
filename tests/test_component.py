"""Components are written both ways and refuse what they do not know, naming rule and value."""

import inspect

import numpy as np
import pytest

import elegans as el
from elegans.component import Component, _numbers
from elegans.discovery import kebab
from elegans.errors import TrialError
from elegans.models.inits import Init
from elegans.training.schedules import Schedule

TRIAL = el.Trial(
    task=el.SparseParity(n=50, k=3),
    regime=el.Sample(1000),
    model=el.MLP(width=100, init=el.SparseInit(2)),
    training=el.SGD(steps=1000, loss="hinge"),
)


def _nested(levels):
    record = {}
    for _ in range(levels):
        record = {"a": record}
    return record


BAD = [
    (lambda: el.SparseParity(n=50, k=60), "k must be at most n: k=60, n=50"),
    (lambda: el.SparseParity(n=0, k=1), "n must be greater than or equal to 1: n=0"),
    (
        lambda: el.SparseParity(n=5, k=2, support=(1, 1)),
        "support must hold k distinct coordinates: k=2, support=(1, 1)",
    ),
    (lambda: el.SparseParity(n=5, k=2, support=(1, 5)), "support must lie in 0..n-1: n=5, support=(1, 5)"),
    (lambda: el.SparseParity(n=5, k=2, noise=1.5), "noise must be less than or equal to 1: noise=1.5"),
    (lambda: el.DisjointParity(n=6, k=2, support=iter(int, 1)), "support must be a list, not an iterator: support="),
    (lambda: el.Sample(0), "size must be greater than or equal to 1: size=0"),
    (lambda: el.Sample(10**9 + 1), "size must be less than or equal to 1000000000: size=1000000001"),
    (lambda: el.MLP(widht=3), "MLP has no field 'widht'; did you mean 'width'?"),
    (
        lambda: el.training.NormPenalty(weight=1e-4),
        "NormPenalty has no field 'weight'; known: exponent, inner, outer,",
    ),
    (lambda: el.training.NormPenalty(), "NormPenalty needs 'strength'"),
    (lambda: el.training.NormPenalty(1, 2), "NormPenalty.__init__() takes 2 positional arguments but 3 were given"),
    (lambda: el.training.Cosine(step=9), "Cosine has no field 'step'; did you mean 'steps'?"),
    (lambda: el.training.Cosine(9), "Cosine must have its fields by name: steps=9"),
    (lambda: el.training.Logistic(scales=2), "Logistic has no field 'scales'; did you mean 'scale'?"),
    (lambda: el.training.Hinge(2), "Hinge has no fields: 2"),
    (lambda: el.Sample(sizes=9), "Sample has no field 'sizes'; did you mean 'size'?"),
    (lambda: el.SparseInit(2, valeu=3), "SparseInit has no field 'valeu'; did you mean 'value'?"),
    (lambda: el.MLP(width=0), "width must be greater than or equal to 1: width=0"),
    (lambda: el.MLP(width=3, init="sparce:2"), "unknown init 'sparce'; did you mean 'sparse'?"),
    (lambda: el.MLP(width=3, init="dense:2"), "'dense' takes nothing after a colon: 'dense:2'"),
    (lambda: el.SGD(), "SGD needs 'steps'"),
    (lambda: el.SGD(steps=5, loss="hing"), "unknown loss 'hing'; did you mean 'hinge'?"),
    (
        lambda: el.SGD(steps=5, batches="epoch"),
        "batches must be one of replacement, epochs: batches='epoch'; did you mean 'epochs'?",
    ),
    (lambda: el.SGD(steps=5, learning_rate=float("nan")), "learning_rate must be a finite number: learning_rate=nan"),
    (
        lambda: el.training.Piecewise(steps=(1, 2), values=(1, 1)),
        "steps of a piecewise schedule must begin with 0 and increase: steps=(1, 2)",
    ),
    (
        lambda: TRIAL.replace("model.init", "sparse:60"),
        "nonzeros of a sparse init must be at most n: nonzeros=60, n=50",
    ),
    (
        lambda: TRIAL.replace("training.steps", 2**30),
        f"steps x batch_size must be below 2^32: steps={2**30}, batch_size=32",
    ),
    (
        lambda: TRIAL.replace("training.layers", {"hiden": {"weight_decay": 1}}),
        "layers must name a layer or parameter of the model: 'hiden'; did you mean 'hidden'?",
    ),
    (lambda: TRIAL.replace("seed", -1), "seed must be greater than or equal to 0: seed=-1"),
    (lambda: TRIAL.replace("modle.width", 3), "Trial has no field 'modle'; did you mean 'model'?"),
    (lambda: TRIAL.replace("seed.x", 3), "'seed' of Trial has no fields of its own: 'seed.x'"),
    # other test modules may have tasks of their own in the register
    (lambda: el.Trial.from_json('{"task": {"n": 5}}'), "task must name its kind (one of "),
    (lambda: el.Trial.from_toml("[task"), "a trial must be TOML"),
    (lambda: el.MLP(width=10**30), f"width must be below 2^31: width={10**30}"),
    (lambda: el.DeepMLP(widths=(10, 2**31)), f"widths must be below 2^31: widths=(10, {2**31})"),
    (lambda: el.SGD(steps=5, batch_size=2**31), f"batch_size must be below 2^31: batch_size={2**31}"),
    (lambda: el.StoppingRule(every=10**30), f"every must be less than {2**32}: every={10**30}"),
    (lambda: el.SparseParity(n=10**4299, k=2), "n must be less than or equal to 65536: n=2^14280 or more"),
    (lambda: el.MLP(width=True), "width must be a number: width=True"),
    (lambda: el.SGD(steps=5, learning_rate=True), "learning_rate must be a number: learning_rate=True"),
    (lambda: el.MLP(width="8"), "width must be a number, not a string: width='8'"),
    (lambda: el.MLP(width=b"8"), "width must be a number, not a string: width=b'8'"),
    (lambda: el.MLP(width="wide"), "width must be a whole number: width='wide'"),
    (lambda: el.DeepMLP(widths=(8, "8")), "widths must be a number, not a string: widths=(8, '8')"),
    (lambda: el.SGD(steps=5, learning_rate="inf"), "learning_rate must be a number, not a string: learning_rate='inf'"),
    (lambda: TRIAL.replace("seed", "3"), "seed must be a number, not a string: seed='3'"),
    (lambda: el.MLP(hidden_bias="no"), "hidden_bias must be True or False, not a string: hidden_bias='no'"),
    (lambda: TRIAL.replace("regime", 1000), "regime must be a regime or a record: 1000; did you mean 'sample:1000'?"),
    (lambda: TRIAL.replace("regime", -3), "regime must be a regime or a record: -3"),
    (lambda: TRIAL.replace("model.activation", 3), "activation must be an activation or a record: 3"),
    (
        lambda: el.SparseParity(n=9, k=2, support=range(5000)),
        "support must hold k distinct coordinates: k=2, support=(0, 1, 2",
    ),
    (lambda: TRIAL.replace("regime", {"kind": [1]}), "the kind of a regime must be a string: kind=[1]"),
    (lambda: TRIAL.replace("training.loss", {"kind": {}}), "the kind of a loss must be a string: kind={}"),
    (lambda: TRIAL.replace("training.loss", {"kind": "hinge", "x": 1}), "Hinge has no field 'x'; there are none"),
    (
        lambda: TRIAL.replace("task", {"kind": "digit-parity", "k": 2, "images": "x" * 5000}),
        "a file of images must be a path of at most 4096 characters",
    ),
    (lambda: TRIAL.replace("task", {"kind": "table", "name": "x" * 300}), "a table must be readable: xxx"),
    (lambda: TRIAL.replace("task", "x" * 10**6), f"unknown task '{'x' * 79}…; known: "),
    (lambda: TRIAL.replace("task", _nested(10**5)), "task must name its kind (one of "),
    (
        lambda: TRIAL.replace("training", {"kind": "descent", "steps": 5}),
        "the kind 'descent' is abstract and cannot be used itself",
    ),
    (lambda: setattr(TRIAL, "seed", 3), "a Trial must not be changed; trial.replace('seed', 3) returns a copy: 'seed'"),
    (lambda: setattr(TRIAL.model, "width", 3), "an MLP must not be changed; model.replace('width', 3) returns a copy"),
    (lambda: setattr(TRIAL, "sede", 3), "Trial has no field 'sede'; did you mean 'seed'?"),
    (lambda: delattr(TRIAL, "seed"), "a Trial must not be changed; trial.replace('seed', …) returns a copy: 'seed'"),
    (lambda: TRIAL.replace(3, 1), "a path must be a string: 3"),
    (lambda: el.Trial.parse(None), "trial must be a valid dictionary or instance of Trial: trial=None"),
    (lambda: el.Trial.from_json(None), "a trial must be JSON in a string: got a NoneType"),
    (lambda: el.Trial.from_json("[1]"), "a trial must be a record in JSON: got a list"),
    (lambda: el.Trial.from_json("[" * 10**5), "a trial must have at most 64 levels: too many nested brackets"),
    (lambda: el.Trial.from_toml("a = " + "[" * 10**5), "a trial must have at most 64 levels: too many nested brackets"),
    (lambda: el.Trial.from_toml("a" + ".a" * 10**5 + "=1"), "a trial must have at most 64 levels: a key of more dots"),
    (
        lambda: el.Trial.from_toml("a = " + "{a = " * 70 + "1" + "}" * 70),
        "a trial must have at most 64 levels: levels=71",
    ),
    (lambda: el.Trial.from_json("9" * 5000), "a trial must be JSON: Exceeds the limit (4300 digits)"),
    (lambda: el.Trial.from_toml("a = " + "9" * 5000), "a trial must be TOML: Exceeds the limit (4300 digits)"),
    (lambda: el.Trial.from_json("nonsense"), "a trial must be JSON"),
    (lambda: el.Trial.from_toml("a" * 10**6), "a trial must be TOML: Expected '='"),
]


@pytest.mark.parametrize(("make", "message"), BAD, ids=[message[:40] for _, message in BAD])
def test_bad_input_is_refused_with_rule_and_value(make, message):
    with pytest.raises(TrialError) as caught:
        make()
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (None, "got a NoneType"),
        ((np.zeros((4, 2)), np.ones(4)), r"shapes \(4, 2\) and \(4,\) of 4 examples"),
        ((np.zeros((4, 3)), np.ones(3)), r"shapes \(4, 3\) and \(3,\) of 4 examples"),
        ((np.full((4, 3), np.nan, np.float32), np.ones(4)), "some values of float32 and float64 are not"),
        ((np.zeros((4, 3)), np.array(["a"] * 4)), "some values of float64 and <U1 are not"),
    ],
)
def test_the_examples_of_a_task_of_ones_own_are_finite_and_as_many_as_asked_for(returned, message):
    class Drawn(el.Task):
        input_size = property(lambda self: 3)

        def examples(self, hidden, key, index):
            return returned

    trial = el.Trial(task=Drawn(), regime=el.Online(), model=el.MLP(width=4), training=el.SGD(steps=5))
    rule = r"the task 'drawn' must return inputs of shape \(count, 3\) and count labels, all finite: "
    with pytest.raises(TrialError, match=rule + message):
        el.train(trial)


def test_a_component_prints_with_its_class():
    assert str(el.SparseInit(2)) == repr(el.SparseInit(2)) and str(el.SparseInit(2)).startswith("SparseInit(")


FAMILIES = [el.Task, el.Regime, el.Model, el.Training, el.Loss, el.Probe, Init, Schedule]
MEMBERS = [one for family in FAMILIES for one in family.members().values() if not inspect.isabstract(one)]


@pytest.mark.parametrize("member", MEMBERS)
def test_a_number_written_as_a_string_is_refused_whatever_the_component(member):
    numbers, truths, _ = _numbers(member)
    for name in numbers:
        with pytest.raises(TrialError, match=f"{name} must be a number, not a string: {name}='8'"):
            member(**{name: "8"})
    for name in truths:
        with pytest.raises(TrialError, match=f"{name} must be True or False, not a string: {name}='yes'"):
            member(**{name: "yes"})


@pytest.mark.parametrize("size", [0, -1, 2**31, "a", None, 1.5, True])
def test_the_inputs_of_a_task_of_ones_own_have_a_size(size):
    class Sized(el.Task):
        input_size = property(lambda self: size)

        def examples(self, hidden, key, index):
            raise NotImplementedError

    with pytest.raises(
        TrialError, match=r"input_size of a task must be a whole number of at least 1 and below 2\^31: "
    ):
        TRIAL.replace("task", Sized())


VARIANTS = [
    {},
    {"regime": "online"},
    {"regime": el.Sample(10**9)},
    {"task.support": (3, 1, 2)},
    {"model.init": "dense"},
    {"training.loss": "logistic"},
    {"training.schedule": {"kind": "piecewise", "steps": [0, 10], "values": [1, 0.5]}},
    {"training.schedule": "cosine:100"},
    {"training.layers": {"output.bias": {"learning_rate": 0.0}}},
    {"seed": 2**63 - 1},
]


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_a_trial_is_written_and_read_both_ways(changes):
    trial = TRIAL
    for path, value in changes.items():
        trial = trial.replace(path, value)
    assert el.Trial.from_json(trial.to_json()) == trial
    assert el.Trial.from_toml(trial.to_toml()) == trial
    assert el.Trial.from_json(trial.to_json()).identity == trial.identity


def test_identity_follows_the_content_and_nothing_else():
    same = el.Trial.from_json(TRIAL.to_json())
    assert same.identity == TRIAL.identity
    others = [TRIAL.with_seed(1), TRIAL.replace("task.k", 4), TRIAL.replace("training.stopping.error", 0.2)]
    assert len({trial.identity for trial in [TRIAL, *others]}) == 4
    assert TRIAL.with_seed(1).cell == TRIAL.cell
    assert el.Trial.from_json(TRIAL.with_seed(1).to_json()).identity == TRIAL.with_seed(1).identity


def test_spellings_of_the_same_component_are_equal():
    spellings = ["sparse:2", {"kind": "sparse", "nonzeros": 2}, el.SparseInit(2), el.SparseInit(nonzeros=2)]
    assert {el.MLP(width=3, init=spelling).init.model_dump_json() for spelling in spellings} == {
        '{"kind":"sparse","nonzeros":2,"value":1.0,"signed":null}'
    }


def test_columns_are_dotted_and_components_show_their_label():
    columns = TRIAL.columns()
    assert columns["task.n"] == 50
    assert columns["regime"] == "sample:1000"
    assert columns["regime.size"] == 1000
    assert columns["model.init"] == "sparse:2"
    assert columns["training.loss"] == "hinge"
    assert columns["seed"] == 0


def test_floats_and_marked_whole_numbers_are_traced_and_nothing_else():
    trial = TRIAL.replace("training.layers", {"output.bias": {"learning_rate": 0.5}})
    assert set(trial.traced()) == {
        "task.noise",
        "regime.size",
        "model.init.value",
        "training.learning_rate",
        "training.weight_decay",
        "training.layers.output.bias.learning_rate",
    }
    changed = trial.substitute({"regime.size": 7, "training.layers.output.bias.learning_rate": 0.25})
    assert changed.regime.size == 7
    assert changed.training.layers["output.bias"].learning_rate == 0.25
    assert trial.regime.size == 1000


def test_a_kind_has_one_class():
    with pytest.raises(TrialError, match="a kind must belong to one class: 'mlp' is already elegans.models.mlp.MLP"):
        type("MLP", (el.Model,), {"__module__": "elsewhere"})


@pytest.mark.parametrize(
    ("name", "expected"), [("SparseParity", "sparse-parity"), ("MLP", "mlp"), ("XORClusters", "xor-clusters")]
)
def test_kinds_are_class_names_in_kebab_case(name, expected):
    assert kebab(name) == expected


def test_components_outside_a_family_have_no_kind_in_their_record():
    assert "kind" not in el.StoppingRule().model_dump()
    assert issubclass(el.StoppingRule, Component)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ("sample", "Sample needs 'size'"),
        ({"kind": "split"}, "Split needs 'fraction'"),
        ({"kind": "split", "fraction": 0.5, "size": 3}, "Split has no field 'size'; known: fraction"),
    ],
)
def test_a_record_of_a_class_with_positional_arguments_is_refused_by_its_fields(record, message):
    with pytest.raises(el.errors.TrialError, match=message):
        el.Trial.parse({"task": "modular-addition:11", "regime": record, "model": "mlp", "training": "sgd"})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: el.SGD(steps=3, lr=0.1), "SGD has no field 'lr'; elegans calls it learning_rate"),
        (lambda: el.SGD(epochs=3), "SGD has no field 'epochs'; elegans calls it steps"),
        (lambda: el.MLP(hidden_size=3), "MLP has no field 'hidden_size'; elegans calls it width"),
        (lambda: el.MLP(width=3, weight_init="dense"), "MLP has no field 'weight_init'; elegans calls it init"),
        (lambda: el.SGD(steps=3, loss="mse"), "unknown loss 'mse'; elegans calls it square or one-hot-square"),
        (lambda: el.SGD(steps=3, loss="bce"), "unknown loss 'bce'; elegans calls it logistic"),
    ],
)
def test_the_usual_names_of_other_tools_are_understood(make, message):
    with pytest.raises(TrialError) as error:
        make()
    assert str(error.value).startswith(message)
