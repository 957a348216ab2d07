"""Hidden progress in a minute."""

import numpy as np

from elegans.phenomena import Bars, Chart, Moment, Phenomenon, Story
from elegans.phenomena.base import Train, errors_of, first_below, thinned
from elegans.probes import WeightTrajectory
from elegans.stopping import StoppingRule
from elegans.studies.hidden_progress.settings import configuration
from elegans.tasks import SparseParity

N, K, BATCH, STEPS, EVERY = 40, 3, 512, 3000, 20


def _hidden(train: Train, seed: int) -> Story:
    trial = configuration("ii", N, K, batch_size=BATCH, learning_rate=0.1, steps=STEPS)
    rule = StoppingRule(error=0, examples=4096, every=EVERY, stop=False)
    trial = trial.replace("training.stopping", rule).replace("seed", seed)
    assert isinstance(trial.task, SparseParity)
    support = [int(place) for place in trial.task.draw(trial.key("task"))]
    outcome = train(trial, WeightTrajectory(every=EVERY))
    errors = errors_of(outcome)
    kept = outcome.measures["weight-trajectory"]
    weight = np.asarray(kept["weight"], float)
    steps = np.asarray(kept["step"], int)
    moved = np.sqrt(((weight - weight[0]) ** 2).mean(axis=1))  # root mean square over neurons, (times, n)
    relevant = np.isin(np.arange(N), support)
    leaves = first_below(*errors["held-out error"], 0.45)
    solved = first_below(*errors["held-out error"], 0.01)
    seen = first_below(steps[1:], -(moved[1:, relevant].min(axis=1) - moved[1:, ~relevant].max(axis=1)), 0.0)
    shown = thinned(steps, 120)
    moments = [Moment(0, "The network guesses: half of its answers are wrong.")]
    if seen is not None:
        text = "From here on, the weights of all three relevant inputs have moved further than those of any other."
        moments.append(Moment(seen, text))
    if leaves is not None:
        moments.append(Moment(leaves, "Now the error leaves the plateau, seemingly out of nowhere."))
    if solved is not None:
        moments.append(Moment(solved, "Solved: at most 1 in 100 fresh examples is wrong."))
    early = "The relevant inputs never took the lead"
    if seen is not None:
        early = f"The weights single out the relevant inputs from step {seen:,} on"
    late = f"the error did not fall below 45% in {STEPS:,} steps"
    if leaves is not None:
        late = f"the error falls below 45% at step {leaves:,}" + (f", {leaves - seen:,} steps later" if seen else "")
    lines = {
        "least-moved relevant input": (steps, moved[:, relevant].min(axis=1)),
        "most-moved other input": (steps, moved[:, ~relevant].max(axis=1)),
    }
    return Story(
        steps[shown].tolist(),
        [
            Chart("The error: a long plateau, then a fall", {"held-out error": errors["held-out error"]}),
            Chart("Below it: how far weights have moved", lines, scale="linear"),
        ],
        [
            Bars(
                f"Movement of the weights of each of {N} inputs (rescaled at each step)",
                moved[shown],
                "input",
                groups=relevant.astype(int).tolist(),
                names=("other inputs", "the inputs that matter"),
                relative=True,
            )
        ],
        moments,
        f"{early}; {late}.",
    )


HIDDEN_PROGRESS = Phenomenon(
    name="hidden-progress",
    shows="The error stays flat, but the weights show that the network is learning",
    source="Barak, Edelman, Goel, Kakade, Malach and Zhang (2022): hidden progress in deep learning; thesis, chapter "
    "5.",
    setting="A ReLU network of 100 neurons learns the parity of 3 of 40 signs from fresh minibatches of 512 examples.",
    watch="The held-out error stays at one half, then drops. The bars show what happens meanwhile: the weights "
    "of the three inputs that matter creep ahead of all others.",
    theory="At initialisation the expected gradient is already larger on the relevant inputs; the difference, "
    "the Fourier gap, is known in closed form. Gradient descent accumulates this bias until the relevant "
    "weights dominate, after a number of examples that grows as nᵏ⁻¹, with a large constant. In theory, then, "
    "it is no random search.",
    further=(
        "elegans run hidden-progress --scale laptop",
        "elegans claims hidden-progress",
        "elegans theory fourier_gap",
    ),
    train=_hidden,
)
