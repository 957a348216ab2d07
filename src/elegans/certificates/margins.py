"""Trained homogeneous networks, held against the largest margin that their task allows."""

from collections.abc import Sequence

import numpy as np

from elegans.errors import CertificateError, TheoryError
from elegans.models import MLP, Model, Power
from elegans.tasks import GroupComposition, ModularAddition, SparseParity, Task
from elegans.theory.margins import (
    HomogeneousWeights,
    MarginCertificate,
    MarginProblem,
    PairWeights,
    ParityWeights,
    certify_margin,
    cyclic_margin_problem,
    group_margin_problem,
    parity_margin_problem,
)
from elegans.training.outcome import Outcome


def has_margins(source: Outcome | HomogeneousWeights, task: Task | None) -> bool:
    """Return whether a network has an output for each class, so that margins are between outputs."""
    if isinstance(source, HomogeneousWeights):
        return True
    model = source.trial.model
    return isinstance(model, MLP) and model.outputs(source.trial.task if task is None else task) > 1


def certify_outputs(
    source: Outcome | HomogeneousWeights, task: Task | None, support: Sequence[int] | None, tolerance: float
) -> MarginCertificate:
    """Hold a network with an output for each class against the largest margin of its task; see ``certify``.

    Args:
        source: an outcome with its parameters, or the weights.
        task: the task; an outcome's own by default.
        support: of a parity; the one that an outcome's task draws by default.
        tolerance: by which share of the largest margin anything may fall short.

    Raises:
        CertificateError: another network or task, no parameters, or a support that is not known.
    """
    try:
        if isinstance(source, HomogeneousWeights):
            if task is None:
                raise CertificateError("a task must be given with weights: task=None")
            return certify_margin(source, _problem(task, support), tolerance=tolerance)
        task = source.trial.task if task is None else task
        if support is None and isinstance(task, SparseParity):
            support = [int(place) for place in task.draw(source.trial.key("task"))]
        return certify_margin(_weights(source, task), _problem(task, support), tolerance=tolerance)
    except TheoryError as error:
        raise CertificateError(str(error)) from error


def _problem(task: Task, support: Sequence[int] | None) -> MarginProblem:
    if isinstance(task, SparseParity):
        places = task.support if support is None else tuple(support)
        if places is None:
            raise CertificateError(f"a support must be given where the task names none: task={task.label()!r}")
        return parity_margin_problem(task.n, places)
    if support is not None:
        raise CertificateError(f"only a parity has a support: task={task.kind!r}, support={tuple(support)}")
    if isinstance(task, ModularAddition):
        return cyclic_margin_problem(task.p)
    if isinstance(task, GroupComposition):
        return group_margin_problem(task.group)
    raise CertificateError(
        "a network with several outputs must have learned addition mod p, composition in a group, or a sparse parity: "
        f"task={task.kind!r}"
    )


def _weights(outcome: Outcome, task: Task) -> HomogeneousWeights:
    if outcome.parameters is None:
        raise CertificateError(
            "an outcome must hold its parameters: parameters=None; el.train(outcome.trial) trains it again and keeps"
            " them"
        )
    power = _power(outcome.trial.model, task)
    layers = {name: {"weight": np.asarray(outcome.parameters[name]["weight"])} for name in ("hidden", "output")}
    if isinstance(task, SparseParity):
        return ParityWeights.from_parameters(layers, power)
    return PairWeights.from_parameters(layers)


def _power(model: Model, task: Task) -> int:
    """Return the power of the activation, refusing networks whose largest margin is not known."""
    plain = isinstance(model, MLP) and model.second_layer and model.homogeneity is not None
    if not (isinstance(model, MLP) and plain and model.scaling == "standard"):
        raise CertificateError(
            f"a network with several outputs must be a standard two-layer mlp without biases: model={model!r}"
        )
    wanted = task.k if isinstance(task, SparseParity) else 2
    degree = model.activation.degree if isinstance(model.activation, Power) else None
    if degree != wanted:
        raise CertificateError(
            f"the largest margin on {task.kind} is known for the activation power:{wanted}: "
            f"activation={model.activation.label()!r}"
        )
    return wanted
