"""Certificates against the exact truth: by construction, by enumeration, and after training."""

import numpy as np
import pytest
from hand_made import as_float, exact_margins, inputs, outcome, parity
from hypothesis import given, settings, strategies as st

import elegans as el
from elegans.certificates.bounds import bounds
from elegans.certificates.network import network_of
from elegans.certificates.quadratic import quadratic


@pytest.mark.parametrize(
    ("n", "support"), [(1, [0]), (5, [3]), (6, [1, 4]), (50, [7, 20, 49]), (10, range(10)), (1000, range(0, 1000, 100))]
)
def test_a_network_that_is_a_parity_is_proved_with_margin_one(n, support):
    found = el.certify(outcome(*parity(n, support), support))
    assert found.proved and found.holds_in_float32 and found.counterexample is None
    assert 1 - 1e-8 < found.margin <= 1 == found.attained
    assert (found.method, found.nodes) == ("intervals", 2 ** len(support))


def test_an_irrelevant_weight_lowers_the_margin_by_what_it_can_do():
    weight, bias, output, offset = parity(20, [1, 2, 3])
    weight[0, 10] = 0.25  # on a slope of 1 it moves the output by a quarter at most
    found = el.certify(outcome(weight, bias, output, offset, [1, 2, 3]), tighten=True)
    assert found.proved
    assert found.attained == 0.75
    assert found.margin == pytest.approx(0.75, abs=1e-9)


@pytest.mark.parametrize("size", [1.0, 1.5, 4.0])
def test_an_irrelevant_weight_of_one_is_refuted_by_a_true_counterexample(size):
    weight, bias, output, offset = parity(30, [1, 2, 3])
    weight[0, 10] = size
    made = outcome(weight, bias, output, offset, [1, 2, 3])
    found = el.certify(made)
    assert found.refuted and not found.holds_in_float32
    x = found.counterexample.astype(float)
    value = np.maximum(x @ weight.T + bias, 0) @ output + offset
    assert x[[1, 2, 3]].prod() * value == found.attained <= 0
    assert set(np.unique(found.counterexample)) <= {-1, 1}


def test_a_parity_of_other_coordinates_is_refuted():
    made = outcome(*parity(12, [0, 5]), [0, 5])
    assert el.certify(made, support=[0, 6]).refuted
    assert el.certify(made, support=[0]).refuted
    assert el.certify(made, el.SparseParity(n=12, k=2, support=(1, 5))).refuted
    assert el.certify(made, el.SparseParity(n=12, k=2, support=(5, 0))).proved


near_parities = st.tuples(
    st.integers(2, 8), st.integers(1, 3), st.sampled_from([0.0, 0.02, 0.1, 0.3, 1.0]), st.integers(0, 2**32 - 1)
)


def disturbed(n, k, scale, seed):
    """Return a parity of the first k of n coordinates, each neuron twice, with noise on every parameter."""
    random = np.random.default_rng(seed)
    weight, bias, output, offset = parity(n, range(min(k, n)))
    twice = [np.concatenate([weight, weight]), np.tile(bias, 2), np.tile(output, 2) / 2, offset]
    return outcome(*(part + scale * random.normal(size=np.shape(part)) for part in twice), range(min(k, n)))


@given(near_parities)
@settings(max_examples=150)
def test_a_verdict_is_the_truth_and_the_margin_lies_between_its_bounds(drawn):
    made = disturbed(*drawn)
    margins = exact_margins(made)
    least = min(margins)
    for tighten in (False, True):
        found = el.certify(made, tighten=tighten)
        assert found.verdict == ("proved" if least > 0 else "refuted")
        assert found.margin <= as_float(least) <= found.attained
        place = int((inputs(len(found.worst)) == found.worst).all(axis=1).argmax())
        assert found.attained == as_float(margins[place])
    if found.proved:
        assert found.margin == pytest.approx(as_float(least), abs=1e-9)


@given(near_parities, st.integers(1, 64))
def test_whatever_the_budget_nothing_false_is_claimed(drawn, more):
    made = disturbed(*drawn)
    k = len(made.trial.task.support)
    found, least = el.certify(made, budget=2**k + more), min(exact_margins(made))
    assert found.nodes <= 2**k + more
    assert found.margin <= as_float(least) <= found.attained
    assert found.undecided or found.proved == (least > 0)


@given(near_parities, st.data())
def test_bounds_of_a_box_hold_at_each_of_its_inputs(drawn, data):
    made = disturbed(*drawn)
    network, support = network_of(made), list(made.trial.task.support)
    node = np.array(data.draw(st.lists(st.sampled_from([-1.0, 0.0, 1.0]), min_size=network.n, max_size=network.n)))
    node[support] = np.where(node[support] == 0, 1, node[support])
    x = inputs(network.n)
    inside = ((node == 0) | (x == node)).all(axis=1)
    least = as_float(min(exact_margins(made)[inside]))
    found = bounds(network, node[None], np.array([node[support].prod()]))
    assert found.intervals[0] <= found.affine[0] <= least
    assert inside[(x == found.candidate[0]).all(axis=1)].all()


@given(st.integers(2, 9), st.integers(1, 30), st.floats(-3, 3), st.integers(0, 2**32 - 1))
def test_the_quadratic_bound_holds_at_each_input_of_a_box(n, width, shift, seed):
    random = np.random.default_rng(seed)
    made = outcome(
        random.normal(size=(width, n)), random.normal(size=width) + shift, random.normal(size=width), shift, [0]
    )
    node = random.choice([-1.0, 0.0, 1.0], size=n, p=[0.1, 0.8, 0.1])
    node[0] = 1
    inside = ((node == 0) | (inputs(n) == node)).all(axis=1)
    for label, margins in ((1, exact_margins(made)), (-1, -exact_margins(made))):
        least = as_float(min((margins * inputs(n)[:, 0])[inside]))
        assert quadratic(network_of(made), node, label) <= least


def test_the_quadratic_bound_is_tighter_where_many_neurons_differ():
    """150 neurons against the label at random directions of 40 inputs: less than half of the affine bound's failure."""
    random = np.random.default_rng(0)
    made = outcome(random.normal(size=(150, 41)), np.zeros(150), -np.ones(150) / 150, 1, [0])
    node = np.zeros(41)
    node[0] = 1
    network = network_of(made)
    affine = bounds(network, node[None], np.ones(1)).affine[0]
    assert affine < 2 * quadratic(network, node, 1) < 0


@pytest.fixture(scope="module")
def small():
    """Six networks trained on (10, 3) for different times, some of them unsolved."""
    trials = [
        el.Trial(
            task=el.SparseParity(n=10, k=3),
            regime=el.Online(),
            model=el.MLP(width=30, init=init),
            training=el.SGD(weight_decay=0.01, steps=steps, stopping=el.StoppingRule(stop=False)),
        )
        for init in ("dense", "sparse:2")
        for steps in (100, 1000, 4000)
    ]
    return [el.train(trial) for trial in trials]


def test_verdicts_on_trained_networks_are_the_truth(small):
    verdicts = set()
    for made in small:
        hidden = made.trial.task.draw(made.trial.key("task"))
        task = el.SparseParity(n=10, k=3, support=tuple(hidden.tolist()))
        held = el.Outcome(made.trial.model_copy(update={"task": task}), made.state, parameters=made.parameters)
        least, found = min(exact_margins(held)), el.certify(held, tighten=True)
        assert found.verdict == ("proved" if least > 0 else "refuted")
        assert found.margin <= as_float(least) <= found.attained
        assert not found.proved or found.margin == pytest.approx(as_float(least), abs=1e-9)
        verdicts.add(found.verdict)
    assert verdicts == {"proved", "refuted"}


def cooled(extra, factor):
    """Return the outcome of (50, 3), width 1000, seed 0, solved at 2200, after so many further steps."""
    schedule = el.training.Piecewise(steps=(0, 2200), values=(1, factor))
    return el.train(
        el.Trial(
            task=el.SparseParity(n=50, k=3),
            regime=el.Online(),
            model=el.MLP(width=1000),
            training=el.SGD(
                weight_decay=0.01, steps=2200 + extra, schedule=schedule, stopping=el.StoppingRule(error=0, stop=False)
            ),
        )
    )


def test_a_network_without_a_held_out_error_can_be_wrong_and_a_cooler_end_of_training_makes_it_right():
    """(50, 3), width 1000: no error on 10^4 inputs, yet wrong somewhere; a tenth of the rate for 3000 steps: proved."""
    hasty, patient = cooled(extra=800, factor=1), cooled(extra=3000, factor=0.1)
    assert hasty.test_error == patient.test_error == 0
    assert el.read_out(hasty).correct and el.read_out(patient).correct
    wrong, right = el.certify(hasty), el.certify(patient)
    assert wrong.refuted
    x = wrong.counterexample.astype(np.float32)
    y = x[list(wrong.support)].prod()
    assert y * hasty.trial.model.apply(hasty.parameters, x[None])[0] < 0
    assert right.proved and right.holds_in_float32 and right.attained > 0.5


def test_the_budget_ends_a_search_with_the_margin_by_which_the_proof_fails():
    made = disturbed(8, 3, 0.05, seed=142)
    enough = el.certify(made)
    assert enough.proved and enough.method == "branching"
    short = el.certify(made, budget=8)
    assert short.undecided and short.margin <= 0 < short.attained
    assert str(short).startswith("undecided: the parity of (0, 1, 2) on all 2^8 inputs; smallest margin in [-")


class Blocks(el.Task, kind="blocks-for-certify"):
    @property
    def input_size(self):
        return 5

    def examples(self, hidden, key, index):
        x = el.random.rademacher(key, index, 5)
        return x, x[:, 0]


class Linear(el.Model, kind="linear-for-certify"):
    def initialise(self, key, task):
        return {"weight": np.zeros(task.input_size, np.float32)}

    def apply(self, parameters, x):
        return x @ parameters["weight"]


def test_what_is_not_covered_is_refused_with_the_rule_and_the_value():
    made = outcome(*parity(5, [0, 1]), [0, 1])
    trial = made.trial
    linear = el.Outcome(trial.model_copy(update={"model": Linear()}), "solved", parameters=made.parameters)
    other = el.Outcome(trial.model_copy(update={"task": Blocks()}), "solved", parameters=made.parameters)
    assert el.certify(other, support=[0, 1]).proved
    wide = outcome(*parity(20, range(20)), range(20))
    cases = [
        (lambda: el.certify(linear), "only a two-layer mlp can be certified: model='linear-for-certify'"),
        (
            lambda: el.certify(el.Outcome(trial, "solved")),
            "an outcome must hold its parameters: parameters=None; .*train",
        ),
        (lambda: el.certify(other), "a task must be a sparse-parity if .*: task='blocks-for-certify'"),
        (lambda: el.certify(wide), "2\\^k must be at most the budget of nodes: k=20, 2\\^k=1048576, budget=4096"),
        (lambda: el.certify(made, support=[0, 5]), "distinct coordinates in 0..n-1, at least one: n=5, support=.0, 5."),
        (lambda: el.certify(made, support=[1, 1]), "support=.1, 1."),
        (lambda: el.certify(made, support=[-1]), "support=.-1,."),
        (lambda: el.certify(made, support=[]), "support=..$"),
    ]
    for call, message in cases:
        with pytest.raises(el.errors.CertificateError, match=message):
            call()
    assert issubclass(el.errors.CertificateError, el.ElegansError) and issubclass(
        el.errors.CertificateError, ValueError
    )


@pytest.mark.parametrize(
    ("layer", "name", "value", "message"),
    [
        ("hidden", "weight", np.full((2, 5), np.nan), "finite float32 numbers: hidden.weight holds .*nan"),
        ("hidden", "weight", np.full((2, 5), 0.1), "finite float32 numbers: hidden.weight holds .*0.1"),
        ("hidden", "bias", np.full(3, 1.0), "shapes .width, n., .width,., .width,.: .2, 5., .3,., .2,."),
        ("output", "weight", np.full((1, 2), 1.0), "output.weight must have 1 axes: shape=.1, 2."),
        ("output", "bias", "none", "parameters must hold numbers 'output.bias': parameters=.'hidden'"),
    ],
)
def test_parameters_of_another_form_are_refused(layer, name, value, message):
    made = outcome(*parity(5, [0, 1]), [0, 1])
    made.parameters[layer][name] = value
    with pytest.raises(el.errors.CertificateError, match=message):
        el.certify(made)
