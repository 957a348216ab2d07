"""The networks of the two-phase theorem, which states no experiment, in the theorem's scaling.

theta and the step size are 0.1, and minibatches have n / theta fresh examples; sizes are ours. The theorem's constants
stand for powers of log n, so all of its bounds are vacuous at these sizes.

Source: Glasgow (2024), Theorem 3.1.
"""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator

from elegans.models import MLP, SphereInit
from elegans.stopping import StoppingRule
from elegans.tasks import XOR, Online
from elegans.training import SGD, Trial
from elegans.training.losses import Logistic

THETA = LEARNING_RATE = 0.1
"""The scale of the initialisation and the step size."""
UNPUBLISHED = "the source has no experiment: laboratory sizes"
DASHED = (0, (4, 3))
MARKS = {"found": ("least_share", 0.1), "dominates": ("dominance", 10.0), "fit": ("fit", 1.0)}
"""The marks of the phases: the first measured step at which a quantity of ``XORMargins`` reaches a level."""


def trial(
    task: XOR,
    *,
    width: int,
    batch_size: int,
    steps: int,
    every: int,
    stop: bool = False,
    theta: float = THETA,
    rate: float = LEARNING_RATE,
) -> Trial:
    """Return a mean-field network from the sphere of radius theta on fresh examples, with the source's loss and steps.

    At regular intervals 4000 held-out examples are checked; a trial is solved at an error of at most 1%.
    """
    model = MLP(width=width, init=SphereInit(theta), hidden_bias=False, output_bias=False, scaling="mean-field")
    rule = StoppingRule(error=0.01, examples=4000, every=every, stop=stop)
    training = SGD(learning_rate=rate, batch_size=batch_size, loss=Logistic(scale=2), steps=steps, stopping=rule)
    return Trial(task=task, regime=Online(), model=model, training=training)


def dimension_axis(ax: Axes, dimensions: Sequence[int], named: Sequence[int] | None = None) -> None:
    """Make the x axis logarithmic, with a tick at each dimension and numbers at those named, all by default."""
    shown = dimensions if named is None else named
    ax.set(xscale="log", xlabel="dimension d")
    ax.set_xticks(dimensions, [str(d) if d in shown else "" for d in dimensions])
    ax.xaxis.set_minor_locator(NullLocator())
