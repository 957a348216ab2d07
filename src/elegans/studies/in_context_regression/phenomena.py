"""The staircase of in-context regression in a minute."""

import numpy as np

from elegans.phenomena import Chart, Matrix, Moment, Phenomenon, Story
from elegans.phenomena.base import Train, first_below
from elegans.studies.in_context_regression.drops import LENGTH
from elegans.studies.in_context_regression.icl_drop_times import SPECTRUM, separate
from elegans.studies.in_context_regression.probes import AttentionMatrix, Preconditioner
from elegans.studies.in_context_regression.theory.descent import context_levels

STEPS, EVERY, INIT = 14_000, 50, 0.05
ORDINALS = ("first", "second", "third", "fourth")


def _staircase(train: Train, seed: int) -> Story:
    probes = Preconditioner(every=EVERY), AttentionMatrix(every=EVERY)
    outcome = train(separate(INIT, STEPS).replace("seed", seed), *probes)
    measured = outcome.measures["preconditioner"]
    steps = [int(step) for step in measured["step"]]
    risk, shares = np.asarray(measured["risk"], float), np.asarray(measured["shares"], float)
    matrices = np.asarray(outcome.measures["attention-matrix"]["matrix"], float)
    levels = context_levels(SPECTRUM, LENGTH)
    moments = [Moment(0, "All weights are small: the answer to every prompt is nearly 0.")]
    learned = 0
    for number, lam in enumerate(SPECTRUM):
        step = first_below(steps, risk, float(levels[number] + levels[number + 1]) / 2)
        if step is not None:
            learned += 1
            text = f"The {ORDINALS[number]} drop: the network learns the direction with variance {lam:g}."
            moments.append(Moment(step, text))
    directions = {f"variance {lam:g}": (steps, shares[:, number]) for number, lam in enumerate(SPECTRUM)}
    theory = {f"{m} learned": float(level) for m, level in enumerate(levels)}
    falls = Chart(
        "The error falls from level to level, each known before training",
        {"error": (steps, risk)},
        theory,
        scale="linear",
        logarithmic=True,
    )
    shown = Chart(
        "Each drop learns one direction, the largest variance first", directions, scale="linear", logarithmic=True
    )
    return Story(
        steps,
        [falls, shown],
        [
            Matrix(
                "How the answer depends on context and query",
                matrices,
                "direction of the context",
                "direction of the query, the largest variance first",
                values="entry:",
            )
        ],
        moments,
        f"{learned} of {len(SPECTRUM)} directions were learned in {STEPS:,} steps; the error is {risk[-1]:.3f}, and "
        f"theory allows no less than {levels[learned]:.3f} with {learned} directions.",
    )


STAIRCASE = Phenomenon(
    name="context-staircase",
    shows="Attention learns in-context regression step by step, and each level of the error is known before training",
    source="Zhang, Singh, Latham and Saxe (2025): Training dynamics of in-context learning in linear attention.",
    setting="Linear attention with five heads of rank one sees prompts of 31 examples of a linear function of "
    "four inputs, a new "
    "function in each prompt, and must predict its value at one more input.",
    watch="The error falls in drops and rests on plateaus between them. In the picture of the matrix, the entries of "
    "the diagonal light up one after another.",
    theory="For each number of learned directions, theory gives the lowest error that is possible (dashed lines). A "
    "head of rank one multiplies three small weights, so it grows slowly at first, and fastest along the largest "
    "variance.",
    further=(
        "elegans run icl-loss-curves --scale laptop",
        "elegans claims icl/staircase-levels",
        "elegans theory context_levels",
    ),
    train=_staircase,
)
