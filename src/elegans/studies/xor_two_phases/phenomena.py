"""The two phases of the XOR in a minute."""

import numpy as np

from elegans.phenomena import Chart, Moment, Phenomenon, Points, Story
from elegans.phenomena.base import Train, first_below
from elegans.probes import WeightTrajectory
from elegans.studies.xor_two_phases.probes import XORMargins, XORParts
from elegans.studies.xor_two_phases.settings import THETA, trial
from elegans.studies.xor_two_phases.theory.surrogate import PHASE_ONE_RATE
from elegans.tasks import XOR

PREDICTED = "predicted for the first phase"
N, WIDTH, STEPS, EVERY = 128, 256, 400, 5


def _xor(train: Train, seed: int) -> Story:
    base = trial(XOR(n=N), width=WIDTH, batch_size=round(N / THETA), steps=STEPS, every=EVERY).replace("seed", seed)
    probes = (WeightTrajectory(every=EVERY, outgoing=True), XORParts(every=EVERY), XORMargins(every=EVERY))
    outcome = train(base, *probes)
    kept, parts, margins = (outcome.measures[probe.kind] for probe in probes)
    steps = [int(step) for step in kept["step"]]
    weight, output = np.asarray(kept["weight"], float), np.asarray(kept["outgoing"], float)[..., 0]
    # the two inputs that decide the label, in the directions of the four clusters
    across, up = (weight[..., 0] + weight[..., 1]) / 2**0.5, (weight[..., 0] - weight[..., 1]) / 2**0.5
    signal = np.asarray(parts["signal"], float)[:, 1]
    rest = np.asarray(parts["rest"], float)[:, 1]
    predicted = signal[0] * (1 + THETA * PHASE_ONE_RATE) ** np.asarray(steps)
    dominates = next((step for step, a, b in zip(steps, signal, rest, strict=True) if a > b), None)
    loss, error = np.asarray(margins["loss"], float), np.asarray(margins["error"], float)
    fitted = first_below(steps, loss, 0.5 * loss[0])
    moments = [Moment(0, "Random weights: neurons point in all directions, most of which are irrelevant.")]
    if dominates is not None:
        text = "The median useful part of a neuron's weights now exceeds the median of the rest."
        moments.append(Moment(dominates, text))
    if fitted is not None:
        moments.append(
            Moment(fitted, "The second phase is under way: the features are found and grow, and the loss has halved.")
        )
    visible = predicted <= 2 * signal.max()
    useful = {
        "useful part": (steps, signal),
        "rest, outside the plane": (steps, rest),
        PREDICTED: (np.asarray(steps)[visible], predicted[visible]),
    }
    return Story(
        steps,
        [
            Chart("First the features grow at the predicted rate", useful, dashed=[PREDICTED], scale="log"),
            Chart(
                "Only then does the loss fall",
                {"loss": (steps, loss), "held-out error": (steps, error)},
                scale="linear",
            ),
        ],
        [
            Points(
                "Neurons align with the four clusters; one dot per neuron",
                np.stack([across, up], axis=-1),
                "weight along the first direction of clusters",
                "weight along the second direction",
                groups=(output[-1] < 0).astype(int).tolist(),
                names=("votes for label 1", "votes for label -1"),
            )
        ],
        moments,
        f"The median neuron came to have more weight on the two signs than elsewhere {_at(dominates)}; the loss "
        f"was halved "
        f"{_at(fitted)}, and the last held-out error is {error[-1]:.2%}.",
    )


def _at(step: int | None) -> str:
    return f"in none of {STEPS} steps" if step is None else f"at step {step}"


XOR_PHASES = Phenomenon(
    name="xor-phases",
    shows="A network first finds the four features of an XOR, and only then tunes them",
    source="Glasgow (2024) proved it: SGD finds then tunes features in two-layer neural networks.",
    setting="A ReLU network with 256 neurons learns the XOR of two of 128 signs from fresh minibatches. Both layers "
    "train at once.",
    watch="Each dot is a neuron, placed by its weights on the two signs that matter. All begin near the middle. "
    "In the first phase most move out along four rays while the loss barely changes; in the second phase "
    "the loss falls.",
    theory="While outputs are small, the useful part of a neuron's weights grows by a constant factor per step "
    "(dashed line), and the rest stays nearly the same. The theorem's bounds say nothing at this size, but what you "
    "see looks as the theorem describes.",
    further=("elegans run xor-phases --scale laptop", "elegans claims xor-phases", "elegans theory xor_clean_growth"),
    train=_xor,
)
