"""Trained networks with an output for each class, compared with the largest margin of their task."""

import numpy as np
import pytest

import elegans as el
from elegans import theory
from elegans.studies.feature_margins.certification import certify

SQUARES = {"activation": "power:2", "hidden_bias": False, "output_bias": False}
DOUBLED = el.training.Piecewise(steps=tuple(range(0, 1801, 200)), values=tuple(2.0**power for power in range(10)))


def trial(task, width, steps=4000, seed=0, **changes):
    """Return a trial with the penalty under which margins grow, all examples a step, and a rate that doubles."""
    population = task.population if task.classes else 2**task.n
    training = el.SGD(
        loss="cross-entropy",
        steps=steps,
        batch_size=population,
        learning_rate=0.05,
        weight_decay=0,
        penalty=el.training.NormPenalty(strength=1e-4),
        schedule=DOUBLED,
        stopping=el.StoppingRule(stop=False),
    )
    model = el.MLP(width=width, **SQUARES)
    return el.Trial(task=task, regime="population", model=model, training=training, seed=seed).model_copy(
        update=changes
    )


def outcome_of(weights, task, **model):
    """Return the outcome of a trial that ended with these weights."""
    made = el.MLP(**{"width": len(weights.readout), **SQUARES, **model})
    training = el.SGD(loss="cross-entropy", steps=1)
    return el.Outcome(
        el.Trial(task=task, regime="online", model=made, training=training), "solved", parameters=weights.parameters()
    )


def test_a_trained_network_is_certified_and_an_untrained_one_is_not():
    task = el.ModularAddition(p=7)
    found = certify(el.train(trial(task, 40)))
    assert isinstance(found, el.studies.MarginCertificate)
    assert found.complete
    assert found.ratio > 0.99
    assert found.minimiser == 1
    start = certify(el.train(trial(task, 40, steps=1)))
    assert not start.maximal
    assert len(start.failing_neurons) > 30


def test_a_group_of_whatever_kind_has_its_certificate():
    for name in ("S3", "Z4"):
        task = el.GroupComposition(group=name)
        found = certify(el.train(trial(task, 24, steps=300)))
        assert found.problem.bound == theory.margin_game(task.group).value
        assert found.ratio < 1


def test_a_group_reaches_what_its_penalty_allows_and_no_more():
    found = certify(el.train(trial(el.GroupComposition(group="S3"), 24)))
    assert found.minimiser == theory.group_penalised_optimum(el.groups.Group.parse("S3"), 1e-4).ratio
    assert found.ratio == pytest.approx(found.minimiser, abs=0.01)
    assert not found.maximal
    assert f"the minimiser of its penalised loss has {found.minimiser:.6f}" in str(found)


def test_constructions_are_certified_as_outcomes_and_as_weights():
    network, task = theory.cyclic_construction(5).scaled(4), el.ModularAddition(p=5)
    for source in (outcome_of(network, task), network):
        found = certify(source, task, tolerance=1e-4)
        assert found.complete
        assert found.ratio == pytest.approx(1, abs=1e-5)


def test_a_parity_is_compared_with_the_support_that_it_is_given():
    network, task = theory.parity_construction(6, (0, 2, 3)), el.SparseParity(n=6, k=3, support=(0, 2, 3))
    assert certify(network, task).complete
    assert certify(outcome_of(network, task, activation="power:3", output_count=2)).complete
    other = certify(network, task, support=(0, 2, 4))
    assert other.margin < 0
    assert str(other).startswith("wrong somewhere")


def test_one_output_is_certified_by_the_lab():
    weight = np.zeros((1, 3), np.float32)
    parameters = {
        "hidden": {"weight": weight, "bias": np.ones(1, np.float32)},
        "output": {"weight": np.ones(1, np.float32), "bias": np.zeros((), np.float32)},
    }
    made = el.Trial(task=el.SparseParity(n=3, k=1), regime="online", model=el.MLP(width=1), training=el.SGD(steps=1))
    assert el.certify(el.Outcome(made, "unsolved", parameters=parameters)).refuted


@pytest.mark.parametrize(
    ("call", "rule"),
    [
        (lambda: certify(theory.cyclic_construction(5)), "a task must be given with weights: task=None"),
        (
            lambda: certify(outcome_of(theory.cyclic_construction(5), el.ModularAddition(p=5), activation="relu")),
            "the largest margin on modular-addition is known for the activation power:2: activation='relu'",
        ),
        (
            lambda: certify(outcome_of(theory.cyclic_construction(5), el.ModularAddition(p=5), hidden_bias=True)),
            "must be a standard two-layer mlp without biases",
        ),
        (
            lambda: certify(theory.cyclic_construction(5), el.ModularAddition(p=5), support=[1]),
            r"only a parity has a support: task='modular-addition', support=\(1,\)",
        ),
        (lambda: certify(theory.parity_construction(4, [0]), el.SparseParity(n=4, k=1)), "a support must be given"),
        (
            lambda: certify(theory.cyclic_construction(5), el.ModularAddition(p=7)),
            "there must be one label per example",
        ),
        (lambda: certify(theory.cyclic_construction(5), el.XOR(n=10)), "must have been trained on addition mod p"),
        (lambda: certify(theory.cyclic_construction(5), el.ModularAddition(p=257)), "p must be at most 256"),
        (
            lambda: certify(el.Outcome(trial(el.ModularAddition(p=5), 8), "failed")),
            "an outcome must hold its parameters",
        ),
    ],
)
def test_what_cannot_be_certified_is_refused(call, rule):
    with pytest.raises(el.errors.CertificateError, match=rule):
        call()
