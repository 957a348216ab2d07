"""Learning rates that slide or stay as networks widen, in a minute."""

from collections.abc import Sequence

import numpy as np

from elegans.phenomena import Chart, Moment, Phenomenon, Points, Story
from elegans.phenomena.base import Train
from elegans.studies.width_transfer.width_rates import MAXIMAL, STANDARD, STEPS, TITLES, trial

WIDTHS = (64, 256, 1024)
RATES = 2.0 ** np.arange(-9, 1)
LARGEST = 2.0
"""The value at which larger losses are drawn, such as losses of runs that diverge."""
EVERY = 10
"""How often losses are recorded."""
NAMES = (STANDARD, MAXIMAL)


def _losses(train: Train, seed: int, name: str, width: int, rate: float, steps: int) -> np.ndarray:
    """Return the mean loss over every ten steps; the largest drawn throughout if the training diverges."""
    one = trial("online", name, width, rate).replace("training.steps", steps)
    one = one.replace("training.stopping.every", EVERY).replace("seed", seed)
    curve = train(one, errors=False).curve
    losses = np.full(steps // EVERY, LARGEST)
    losses[: len(curve.loss)] = curve.loss
    return np.asarray(np.minimum(losses, LARGEST))


def story_of(train: Train, seed: int, widths: Sequence[int] = WIDTHS, steps: int = STEPS) -> Story:
    """Train networks of all widths at all rates in both parametrisations, and return what they showed."""
    losses = {
        (name, width): np.array([_losses(train, seed, name, width, float(rate), steps) for rate in RATES])
        for name in NAMES
        for width in widths
        if width > widths[0] or name == STANDARD
    }
    losses[MAXIMAL, widths[0]] = losses[STANDARD, widths[0]]  # the same network at the base width
    moments = np.arange(1, steps // EVERY + 1) * EVERY
    best = {key: float(np.log2(RATES[each[:, -1].argmin()])) for key, each in losses.items()}
    tuned = int(losses[STANDARD, widths[0]][:, -1].argmin())
    widest = {name: losses[name, widths[-1]] for name in NAMES}
    wide = {TITLES[name].lower(): (moments, each[tuned]) for name, each in widest.items()}
    own = {TITLES[name].lower(): (moments, each[each[:, -1].argmin()]) for name, each in widest.items()}
    slid, stayed = (best[name, widths[-1]] - best[name, widths[0]] for name in NAMES)
    return Story(
        moments.tolist(),
        [
            Chart(f"{widths[-1]:,} neurons at the rate tuned on {widths[0]}", wide, scale="log"),
            Chart(f"{widths[-1]:,} neurons at their own best rate", own, scale="log"),
        ],
        [_curves(name, [losses[name, width] for width in widths], widths) for name in NAMES],
        [
            Moment(EVERY, "Some networks have begun to learn; runs at the largest rates have diverged."),
            Moment(
                int(moments[len(moments) // 4]),
                "After about a quarter of the steps the two parametrisations have parted.",
            ),
            Moment(int(moments[-1]), "The lowest dot of each colour is the best rate of that width."),
        ],
        f"From {widths[0]} to {widths[-1]:,} neurons the best learning rate {_moved(slid)} in the standard "
        f"parametrisation and {_moved(stayed)} in the maximal-update one.",
    )


def _moved(powers: float) -> str:
    """Return in words by which factor a rate moved, given as a power of two."""
    word = "fell" if powers < 0 else "rose"
    return f"{word} by a factor of {2 ** abs(powers):g}" if powers else "stayed the same"


def _curves(name: str, losses: Sequence[np.ndarray], widths: Sequence[int]) -> Points:
    """Return the loss against the rate, a dot for each training."""
    up = np.log2(np.concatenate(losses)).T
    across = np.broadcast_to(np.tile(np.log2(RATES), len(widths)), up.shape)
    return Points(
        f"{TITLES[name]}: loss against learning rate",
        np.stack([across, up], axis=-1),
        f"learning rate (quoted at width {widths[0]})",
        "loss",
        groups=np.repeat(np.arange(len(widths)), len(RATES)).tolist(),
        names=[f"{width:,} neurons" for width in widths],
        logarithmic=True,
    )


def _rates(train: Train, seed: int) -> Story:
    return story_of(train, seed)


LEARNING_RATES = Phenomenon(
    name="learning-rates",
    shows="As networks widen, the best learning rate shifts in one parametrisation and stays put in another",
    source="Yang and Hu (2021) and Yang et al. (2022): the maximal-update parametrisation.",
    setting="ReLU networks with 64, 256 and 1,024 neurons learn the parity of two of 20 signs at ten learning rates, "
    "in two parametrisations that agree at 64 neurons.",
    watch="Each dot is one run; each colour is one width, and its lowest dot marks the best learning "
    "rate. In the standard parametrisation the lowest dot moves to the left as networks widen. In the maximal-update "
    "parametrisation it stays in place. Losses above 2, such as those of runs that diverge, are drawn at 2.",
    theory="In the standard parametrisation the largest stable rate is about 2 divided by the largest eigenvalue of "
    "the tangent kernel (the kernel of the network's gradients), which grows with the width. The maximal-update "
    "parametrisation scales the learning rate and "
    "the initial weights of each layer so that its first steps have the same size at every width.",
    further=(
        "elegans run width-rates --scale laptop",
        "elegans claims width-rates",
        "elegans theory first_step_exponents",
    ),
    train=_rates,
)
