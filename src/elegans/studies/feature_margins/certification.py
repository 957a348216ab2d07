"""Trained homogeneous networks, held against the largest margin that their task allows."""

from collections.abc import Sequence
from dataclasses import replace

from elegans.errors import CertificateError, TheoryError
from elegans.models import MLP, Model, Power
from elegans.studies.feature_margins.probes import homogeneous_weights
from elegans.studies.feature_margins.theory.certificate import TOLERANCE, MarginCertificate, certify_margin
from elegans.studies.feature_margins.theory.penalty import (
    cyclic_penalised_optimum,
    group_penalised_optimum,
    parity_penalised_optimum,
)
from elegans.studies.feature_margins.theory.problems import (
    MarginProblem,
    cyclic_margin_problem,
    group_margin_problem,
    parity_margin_problem,
)
from elegans.studies.feature_margins.theory.weights import HomogeneousWeights
from elegans.tasks import GroupComposition, ModularAddition, SparseParity, Task
from elegans.training import NormPenalty, Trial
from elegans.training.optimisers import Descent
from elegans.training.outcome import Outcome


def certify(
    source: Outcome | HomogeneousWeights,
    task: Task | None = None,
    *,
    support: Sequence[int] | None = None,
    tolerance: float = TOLERANCE,
) -> MarginCertificate:
    """Compare a homogeneous network with an output for each class to the largest margin that its task allows.

    The largest margin is known for squares on addition mod p or on composition in a group, of at most 256 elements, and
    for powers x^k on a k-sparse parity of at most 20 signs. The whole population is evaluated.

    Args:
        source: an outcome with its parameters, or the ``PairWeights`` or ``ParityWeights`` of a network.
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
        certificate = certify_margin(_weights(source, task), _problem(task, support), tolerance=tolerance)
        return replace(certificate, reachable=_reachable(source.trial, task))
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


def _reachable(trial: Trial, task: Task) -> float | None:
    """Return the ratio of the best network under a trial's penalty, where its norm is the one that margins are of."""
    training, degree = trial.training, trial.model.homogeneity
    plain = isinstance(training, Descent) and not training.weight_decay and not training.layers
    penalty = training.penalty if isinstance(training, Descent) and plain else None
    if not isinstance(penalty, NormPenalty) or degree is None or not penalty.strength:
        return None
    outer, exponent = penalty.exponents(trial.model)
    if penalty.inner != 2 or outer != degree:
        return None
    if isinstance(task, SparseParity):
        best = parity_penalised_optimum(task.k, penalty.strength, exponent)
    elif isinstance(task, ModularAddition):
        best = cyclic_penalised_optimum(task.p, penalty.strength, exponent)
    else:
        assert isinstance(task, GroupComposition)
        best = group_penalised_optimum(task.group, penalty.strength, exponent)
    return best.ratio if best.mass else None


def _weights(outcome: Outcome, task: Task) -> HomogeneousWeights:
    if outcome.parameters is None:
        raise CertificateError(
            "an outcome must hold its parameters: parameters=None; el.train(outcome.trial) trains it again and keeps"
            " them"
        )
    return homogeneous_weights(task, _known(outcome.trial.model, task), outcome.parameters)


def _known(model: Model, task: Task) -> MLP:
    """Return the model, refusing networks whose largest margin is not known."""
    plain = isinstance(model, MLP) and model.readout and model.homogeneity is not None
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
    return model
