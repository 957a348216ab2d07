"""A network climbs a staircase of parities, in a minute."""

import numpy as np

from elegans.phenomena import Bars, Chart, Moment, Phenomenon, Story
from elegans.phenomena.base import Train, thinned
from elegans.probes import WeightTrajectory
from elegans.studies.staircases.probes import SetCoefficients
from elegans.studies.staircases.staircase_plateaus import PATIENCE, RATES, STAIRCASES, run

NAME, N, MEASURED = "staircase of 5", 64, 320
SUBSCRIPTS = str.maketrans("123456789", "₁₂₃₄₅₆₇₈₉")


def story_of(train: Train, seed: int, n: int = N) -> Story:
    """Train a network on a staircase of five parities, and return what it showed."""
    sets = STAIRCASES[NAME]
    one = run(NAME, n, RATES[0]).replace("seed", seed)
    every = max(1, PATIENCE[NAME] * n // MEASURED)
    outcome = train(one, SetCoefficients(every=every), WeightTrajectory(every=every), errors=False)
    kept, weights = outcome.measures["set-coefficients"], outcome.measures["weight-trajectory"]
    steps = np.asarray(kept["step"], int)
    names = ["".join(f"x{member + 1}".translate(SUBSCRIPTS) for member in members) for members in sets]
    learned = [np.asarray(kept[f"set{place}"], float) for place in range(len(sets))]
    support = [int(place) for place in one.task.draw(one.key("task"))]
    others = [place for place in range(n) if place not in support]
    weight = np.asarray(weights["weight"], float)
    sizes = np.sqrt(np.square(weight).mean(axis=1))[:, support + others]
    halves = [steps[each >= 0.5] for each in learned]
    passed = [int(half[0]) if len(half) else None for half in halves]
    moments = [Moment(0, "Nothing is learned: the loss is as high as that of always answering 0.")]
    moments += [
        Moment(step, f"The coefficient of {name} passes one half.")
        for name, step in zip(names, passed, strict=True)
        if step is not None
    ]
    reached = [(name, step) for name, step in zip(names, passed, strict=True) if step is not None]
    shown = thinned(steps, 160)
    theory = {f"{count} of {len(sets)} learned": (len(sets) - count) / 2 for count in range(1, len(sets))}
    return Story(
        steps[shown].tolist(),
        [
            Chart(
                "The loss falls steeply, then more slowly",
                {"loss": (steps, kept["loss"])},
                theory=theory,
                scale="linear",
            ),
            Chart(
                "Products are learned in order, the shortest first",
                {name: (steps, each) for name, each in zip(names, learned, strict=True)},
                theory={"target": 1.0},
                scale="linear",
            ),
        ],
        [
            Bars(
                f"Mean size of the weights of each of {n} inputs",
                sizes[shown],
                f"input, the {len(support)} relevant ones first",
                groups=[0] * len(support) + [1] * len(others),
                names=("relevant", "other"),
                relative=True,
            )
        ],
        moments,
        "The coefficients of the products passed one half at step "
        + (", ".join(f"{step:,} ({name})" for name, step in reached) or "none of them")
        + f"; {len(reached)} of {len(sets)} did so in {one.steps:,} steps.",
    )


def _staircase(train: Train, seed: int) -> Story:
    return story_of(train, seed)


STAIRCASE = Phenomenon(
    name="staircase",
    shows="A network climbs a staircase of products: each one it learns helps it to find the next",
    source="Abbe, Boix-Adsera and Misiakiewicz (2022, 2023) found and explained it.",
    setting="A ReLU network with 200 neurons learns x₁ + x₁x₂ + x₁x₂x₃ + x₁x₂x₃x₄ + x₁x₂x₃x₄x₅ of 64 random "
    "signs, from fresh minibatches.",
    watch="The loss falls steeply while the network finds the first two products. Then it falls more slowly: the "
    "longer products grow side by side and pass one half in order, and the weights of the inputs grow one after "
    "another.",
    theory="A product is found fast once all but one of its signs are known: finding the next sign is then in kind "
    "like finding a single sign. A product of five signs without stairs "
    "would take far longer. Theory predicts how the number of steps grows with the number of inputs, but not "
    "the number itself.",
    further=(
        "elegans run staircase-plateaus --scale laptop",
        "elegans run leap-scaling --scale laptop",
        "elegans theory leap",
    ),
    train=_staircase,
)
