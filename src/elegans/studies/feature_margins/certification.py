"""Trained homogeneous networks compared with the largest margin that their task allows."""

from collections.abc import Sequence
from dataclasses import replace

from elegans.errors import CertificateError, TheoryError
from elegans.models import MLP
from elegans.studies.feature_margins.families import NAMED, activation_degree, family_of, optimum_of
from elegans.studies.feature_margins.theory.certificate import TOLERANCE, MarginCertificate, certify_margin
from elegans.studies.feature_margins.theory.problems import MarginProblem
from elegans.studies.feature_margins.theory.weights import HomogeneousWeights
from elegans.tasks import SparseParity, Task
from elegans.training.outcome import Outcome


def certify(
    source: Outcome | HomogeneousWeights,
    task: Task | None = None,
    *,
    support: Sequence[int] | None = None,
    tolerance: float = TOLERANCE,
) -> MarginCertificate:
    """Compare a homogeneous network with one output per class to the largest margin that its task allows.

    The largest margin is known for squares on addition mod p or on composition in a group, of at most 256 elements, and
    for powers x^k on a k-sparse parity of at most 20 signs. The whole population is evaluated.

    Args:
        source: an outcome with its parameters, or the ``PairWeights`` or ``ParityWeights`` of a network.
        task: the task; an outcome's own by default.
        support: of a parity; the one that an outcome's task draws by default.
        tolerance: by what share of the largest margin the network, a neuron or a logit may fall short.

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
        problem = _problem(task, support)
        certificate = certify_margin(_weights(source, task), problem, tolerance=tolerance)
        best = optimum_of(source.trial, task)
        return replace(certificate, minimiser=best.ratio if best and best.mass else None)
    except TheoryError as error:
        raise CertificateError(str(error)) from error


def _problem(task: Task, support: Sequence[int] | None) -> MarginProblem:
    family = family_of(task)
    if isinstance(task, SparseParity):
        support = task.support if support is None else support
        if support is None:
            raise CertificateError(f"a support must be given where the task names none: task={task.label()!r}")
    elif support is not None:
        raise CertificateError(f"only a parity has a support: task={task.kind!r}, support={tuple(support)}")
    if family is None:
        raise CertificateError(f"a network with several outputs must have been trained on {NAMED}: task={task.kind!r}")
    return family.problem(task, support or ())


def _weights(outcome: Outcome, task: Task) -> HomogeneousWeights:
    """Return an outcome's weights, refusing networks whose largest margin is not known."""
    if outcome.parameters is None:
        raise CertificateError(
            "an outcome must hold its parameters: parameters=None; el.retrain(outcome) trains it again and keeps them"
        )
    model, family = outcome.trial.model, family_of(task)
    standard = isinstance(model, MLP) and model.readout and model.scaling == "standard"
    if not isinstance(model, MLP) or not standard or model.homogeneity is None:
        raise CertificateError(
            f"a network with several outputs must be a standard two-layer mlp without biases: model={model!r}"
        )
    assert family is not None
    if activation_degree(model) != family.power(task):
        raise CertificateError(
            f"the largest margin on {task.kind} is known for the activation power:{family.power(task)}: "
            f"activation={model.activation.label()!r}"
        )
    return family.weights(outcome.parameters, family.power(task))
