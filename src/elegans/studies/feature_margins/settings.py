"""Features from margins: networks without biases, cross-entropy with a tiny penalty, on exactly understood tasks.

One hidden layer, every example of the population at every step, and a learning rate that is doubled repeatedly, since
the gradient of the loss falls exponentially as margins grow. ``PRINTED`` has the thesis' six settings.

What the thesis leaves open is settled as follows: the penalty is lambda ||theta||^nu with the network's degree nu of
homogeneity (any power has the same limit, and this one gets there fastest); initial weights are uniform on plus or
minus 1/sqrt(fan-in); the cross-entropy is a mean over the examples; for S_5, minibatches are 1000 pairs, resampled
independently at every step; a parity's support is its first k signs.

Source: thesis, chapter 7 and appendix D.2.
"""

from collections.abc import Sequence

from elegans.groups import Group, Symmetric
from elegans.models import MLP, GaussianInit, Power
from elegans.stopping import StoppingRule
from elegans.studies.feature_margins.theory.groups import group_width
from elegans.tasks import GroupComposition, ModularAddition, Online, Population, Regime, SparseParity, Task
from elegans.training import SGD, NormPenalty, Piecewise, Trial
from elegans.training.optimisers import Descent

DOUBLED = (*range(200, 2601, 200), 5000, 10_000)
"""The steps at which the learning rate is doubled on S_3 and S_4."""
CHECKS = 20
"""The number of steps between error counts."""


def network(
    task: Task,
    width: int,
    degree: int | None,
    *,
    penalty: float,
    steps: int,
    learning_rate: float = 0.05,
    doubled: Sequence[int] = (),
    minibatch: int | None = None,
) -> Trial:
    """Return the training of a network without biases on all examples of a task, or on a fresh minibatch per step.

    The activation is the power ``degree``, or ReLU where that is None; the penalty is ``penalty`` sum ||omega||^nu. The
    learning rate is doubled at the steps ``doubled``.
    """
    regime: Regime = Population() if minibatch is None else Online()
    size = minibatch or task.population
    assert size is not None
    values = tuple(2.0**count for count in range(len(doubled) + 1))
    return Trial(
        task=task,
        regime=regime,
        model=MLP(
            width=width,
            activation="relu" if degree is None else Power(degree),
            hidden_bias=False,
            output_bias=False,
            output_count=2 if task.classes is None else None,
        ),
        training=SGD(
            learning_rate=learning_rate,
            batch_size=size,
            loss="cross-entropy",
            penalty=NormPenalty(penalty),
            schedule=Piecewise(steps=(0, *doubled), values=values) if doubled else "constant",
            steps=steps,
            stopping=StoppingRule(error=0, examples=1000, every=max(1, steps // CHECKS), stop=False),
        ),
    )


def addition(p: int, width: int, degree: int | None, *, steps: int, every: int, doublings: int = 10) -> Trial:
    """Return a network on addition modulo p with lambda = 1e-4, its learning rate doubled at regular intervals."""
    doubled = range(every, every * doublings + 1, every)
    return network(ModularAddition(p=p), width, degree, penalty=1e-4, steps=steps, doubled=doubled)


def parity(n: int, k: int, width: int, *, steps: int) -> Trial:
    """Return a network of powers x^k on the parity of the first k of n signs, with lambda = 1e-3."""
    task = SparseParity(n=n, k=k, support=tuple(range(k)))
    return network(task, width, k, penalty=1e-3, steps=steps, learning_rate=0.1)


def composition(group: Group, width: int | None = None, *, steps: int = 50_000) -> Trial:
    """Return a quadratic network on composition in a group with lambda = 1e-7, as the thesis trains on S_3 and S_4.

    The default width is five thirds of the theorem's bound, rounded up to tens, which is about the thesis' choice.
    Doublings of the learning rate after the last step are left out.

    Raises:
        GroupError: an irrep of the group is not real, so there is no bound.
    """
    task = GroupComposition(group=group)
    chosen = width or 10 * -(-group_width(group) // 6)
    return network(task, chosen, 2, penalty=1e-7, steps=steps, doubled=[step for step in DOUBLED if step < steps])


def powered(one: Trial, exponent: float) -> Trial:
    """Return a training with another power r of the norm in its penalty."""
    assert isinstance(one.training, Descent) and isinstance(one.training.penalty, NormPenalty)
    return one.replace("training.penalty", NormPenalty(one.training.penalty.strength, exponent=exponent))


def power_of(one: Trial) -> float:
    """Return the power r of the norm in a training's penalty."""
    assert isinstance(one.training, Descent) and isinstance(one.training.penalty, NormPenalty)
    return float(one.training.penalty.exponents(one.model)[1])


def start_of(one: Trial) -> str:
    """Return the distribution of a network's initial weights in a few words."""
    assert isinstance(one.model, MLP)
    init = one.model.init
    if isinstance(init, GaussianInit) and init.std is not None:
        return f"{init.label()} {init.std:g}"
    return str(init.label())


PRINTED: dict[str, Trial] = {
    "addition, quadratic": addition(71, 500, 2, steps=40_000, every=1000),
    "addition, ReLU": addition(71, 500, None, steps=40_000, every=1000),
    "parity": parity(10, 4, 40, steps=30_000),
    "S3": composition(Symmetric(n=3), 30),
    "S4": composition(Symmetric(n=4), 200),
    "S5": network(
        GroupComposition(group=Symmetric(n=5)),
        2000,
        2,
        penalty=1e-5,
        steps=75_000,
        doubled=range(3000, 24_001, 3000),
        minibatch=1000,
    ),
}
"""The thesis' six settings, all as printed."""
