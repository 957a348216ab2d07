"""Grokking and slingshots, each in a minute."""

from typing import Any

import numpy as np

from elegans.phenomena import Chart, Matrix, Moment, Phenomenon, Points, Story
from elegans.phenomena.base import Train, errors_of, first_below
from elegans.probes import ParameterTrajectory
from elegans.studies.modular_grokking.losses import RoundedCrossEntropy
from elegans.studies.modular_grokking.probes import AnalyticForm, LayerNorms, pair_weights
from elegans.studies.modular_grokking.settings import FITTED, SOLVED, network, without_decay
from elegans.studies.modular_grokking.slingshots import LOW, SPIKE
from elegans.tasks import ModularAddition

P, FRACTION, STEPS, FRAMES = 23, 0.45, 4000, 80
DRAWN = 48
"""The number of neurons in the pictures, the strongest ones."""
SLUNG = 8000
"""Steps of the training that slingshots."""


def _grokking(train: Train, seed: int) -> Story:
    trial = network(ModularAddition(p=P), FRACTION, steps=STEPS, stop=False).replace("seed", seed)
    every = STEPS // FRAMES
    outcome = train(trial, ParameterTrajectory(every=every), AnalyticForm(every=every))
    errors = errors_of(outcome)
    form, kept = outcome.measures["analytic-form"], outcome.measures["parameter-trajectory"]
    steps = [int(step) for step in kept["step"]]
    parts = [
        [np.fft.rfft(part, axis=1) for part in pair_weights({"hidden": {"weight": h}, "output": {"weight": o}}, P)]
        for h, o in zip(kept["hidden.weight"], kept["output.weight"], strict=True)
    ]
    powers = np.array([np.mean([np.abs(part[:, 1:]) ** 2 for part in at], axis=0) for at in parts])
    last = powers[-1]
    own, strong = last.argmax(axis=1), np.argsort(-last.max(axis=1))[:DRAWN]
    order = strong[np.argsort(own[strong], kind="stable")]
    shares = powers / powers.sum(axis=2, keepdims=True).clip(1e-12)
    place = np.arange(len(own))
    angles = np.array([[np.angle(part[place, 1 + own]) for part in at] for at in parts])
    phases = np.stack([angles[:, 0] + angles[:, 1], angles[:, 2]], axis=-1)[:, order]
    phases = (phases + np.pi) % (2 * np.pi) - np.pi
    cosines = 1 - np.asarray(form["cosines"], float)
    fitted = first_below(*errors["training error"], FITTED)
    solved = first_below(*errors["held-out error"], SOLVED)
    known = first_below(form["step"], cosines, SOLVED)
    moments = [Moment(0, "Random weights: the network guesses, and every neuron mixes all frequencies.")]
    if fitted is not None:
        wrong = float(np.interp(fitted, *errors["held-out error"]))
        text = f"It has memorised its training pairs, and is wrong on {wrong:.0%} of the others."
        moments.append(Moment(fitted, text))
    if known is not None:
        text = (
            "The answer is hidden in its weights: with each neuron replaced by the cosine nearest to it, the network "
            "would already be right on 99% of all pairs."
        )
        moments.append(Moment(known, text))
    if solved is not None:
        moments.append(Moment(solved, "Grokking: it is right on 99% of the pairs that it has never seen."))
    lines = {**errors, "error of its cosines on all pairs": (form["step"], cosines)}
    found = f"The network did not fit its training pairs within {STEPS:,} steps."
    if fitted is not None:
        found = f"The network fitted its training pairs after {fitted:,} steps"
        late = f"and generalised after {solved:,}, {solved / fitted:.0f} times as many" if solved else ""
        found += f" {late}" if late else f", and did not generalise within {STEPS:,}"
        found += (
            f"; with each neuron replaced by its nearest cosine it was right by step {known:,}."
            if known is not None
            else "."
        )
    return Story(
        steps,
        [Chart("Training pairs are learned long before held-out pairs", lines, logarithmic=True)],
        [
            Matrix(
                f"Each neuron settles on one frequency; the {DRAWN} strongest of {len(own)} neurons",
                shares[:, order],
                "neuron, ordered by frequency",
                f"frequency (modulo {P})",
                values="share of the neuron's power:",
            ),
            Points(
                "Phases add up: the output's is the sum of the inputs'; one dot per neuron",
                phases,
                "phase of a + phase of b (radians)",
                "phase of the output (radians)",
                guides=[(-np.pi, -np.pi, np.pi, np.pi)],
            ),
        ],
        moments,
        found,
    )


GROKKING = Phenomenon(
    name="grokking",
    shows="A network memorises a table of sums modulo 23 long before it learns to add",
    source="Power et al. (2022) found it; Gromov (2023) gave the solution in closed form.",
    setting="A network of 128 neurons with quadratic activation learns a + b modulo 23 from 45% of all 529 pairs.",
    watch="The training error falls at once, the held-out error much later and gradually. Meanwhile each neuron "
    "settles on one "
    "frequency, and the phases move onto the dashed line.",
    theory="A network with enough neurons is right on all pairs if each neuron is a cosine of one frequency and the "
    "phases add up. Training comes close to this solution: the dashed line is where the phases should lie. Theory "
    "does not predict when a network generalises. The experiment `grokking` maps the delay on another task, sparse "
    "parities.",
    further=(
        "elegans run grokking-delay --scale laptop",
        "elegans run grokking --scale laptop",
        "elegans claims grok",
        "elegans theory analytic",
    ),
    train=_grokking,
)


def _slingshot(train: Train, seed: int) -> Story:
    every = SLUNG // 100
    common: dict[str, Any] = {"width": 48, "epsilon": 1e-8, "steps": SLUNG, "every": every}
    trial = without_decay(ModularAddition(p=13), 0.7, **common).replace("training.learning_rate", 0.01)
    outcome = train(
        trial.replace("training.loss", RoundedCrossEntropy()).replace("seed", seed), LayerNorms(every=every)
    )
    norms, errors = outcome.measures["layer-norms"], errors_of(outcome)
    steps = [int(step) for step in norms["step"]]
    at, loss = np.asarray(outcome.curve.step), np.asarray(outcome.curve.loss, float)
    jumps, quiet = [], False
    for step, value in zip(at, loss, strict=True):
        if quiet and value > SPIKE:
            jumps.append(int(step))
        quiet = value < LOW or (quiet and value <= SPIKE)
    known = np.flatnonzero(np.asarray(errors["training error"][1], float) <= FITTED)
    fitted = int(errors["training error"][0][known[0]]) if len(known) else None
    moments = [Moment(0, "Adam trains the network, without weight decay.")]
    if fitted is not None:
        text = "The training pairs are learned; there seems to be nothing left to learn."
        moments.append(Moment(fitted, text))
    moments += [Moment(step, "A slingshot: the loss jumps up, and recovers.") for step in jumps]
    grown = float(norms["output"][-1]) / float(np.interp(fitted or 0, steps, norms["output"]))
    return Story(
        steps,
        [
            Chart(
                "The training loss jumps up again and again",
                {"training loss, at least 10⁻⁹": (at, loss.clip(1e-9))},
                scale="log",
            ),
            Chart(
                "The output layer grows before the first jump",
                {"norm of the output weights": (steps, norms["output"])},
                scale="linear",
            ),
            Chart("The network memorises and does not generalise", errors),
        ],
        [],
        moments,
        f"The loss spiked {len(jumps)} times after the training pairs were learned; meanwhile the output layer grew "
        f"{grown:.1f}-fold.",
    )


SLINGSHOT = Phenomenon(
    name="slingshot",
    shows="Long after the training pairs are learned, the loss jumps up again and again under Adam",
    source="Thilak et al. (2022): the slingshot mechanism.",
    setting="A two-layer network with 48 ReLU neurons learns a + b modulo 13 from 70% of all pairs, "
    "with Adam and without weight decay. It does not generalise.",
    watch="Once the training loss has vanished, it jumps up, recovers, and jumps again. The weights of the output "
    "layer grow until the first jump and hardly after.",
    theory="Adam divides each gradient by a running estimate of its size. When gradients round to 0, this estimate "
    "decays towards 0; the next small gradient is then divided by almost nothing, and the step is large. A larger "
    "epsilon prevents this. Here the loss is rounded as in frameworks that compute it in single precision; elegans' "
    "own loss keeps the small terms and shows no slingshots.",
    further=("elegans run slingshots --scale laptop", "elegans claims slingshots"),
    train=_slingshot,
)
