"""Width that buys data, a certificate, and a lottery ticket, each in a minute."""

from dataclasses import replace
from typing import Any

import numpy as np

from elegans.certificates.certification import certify
from elegans.phenomena import Bars, Chart, Moment, Phenomenon, Story
from elegans.phenomena.base import Train, errors_of, first_below
from elegans.probes import HeldOutErrorRate, ParameterTrajectory, WeightTrajectory
from elegans.studies.pareto_frontiers.lottery_tickets import FIRST_SEED, fresh_trial, ticket_trials, wide
from elegans.studies.pareto_frontiers.probes import StrongestNeurons
from elegans.studies.pareto_frontiers.settings import trial
from elegans.tasks import Sample

N, K, EVERY = 50, 3, 200
WIDTHS, EXAMPLES, STEPS = (10, 30, 100, 300, 1000), 1000, 20_000
MADE, CHECKED = 6000, 100
"""Steps of the network that is certified, and between two of its states."""


def _width(train: Train, seed: int) -> Story:
    lines, last, steps = {}, [], list(range(0, STEPS + 1, EVERY))
    for width in WIDTHS:
        network = trial(N, K, STEPS, EVERY).replace("model.width", width).replace("regime", Sample(EXAMPLES))
        network = network.replace("training.stopping.stop", False).replace("seed", seed)
        at, error = errors_of(train(network))["held-out error"]
        lines[f"{width} neurons"] = (at, error)
        last.append(np.interp(steps, at, np.asarray(error, float)))
    frames = np.array(last).T
    solved = {width: first_below(*lines[f"{width} neurons"], 0.1) for width in WIDTHS}
    learned = [width for width, step in solved.items() if step is not None]
    moments = [Moment(0, f"Five networks begin on the same {EXAMPLES:,} examples, and guess.")]
    moments += [Moment(step, f"The network of {width} neurons has learned.") for width, step in solved.items() if step]
    fails = [width for width in WIDTHS if width not in learned]
    few = f"; networks of {_and(fails)} neurons did not" if learned and fails else ""
    found = f"networks of {_and(learned)} neurons" if learned else "none of the networks"
    return Story(
        steps,
        [Chart(f"The same {EXAMPLES:,} examples, five widths", lines)],
        [
            Bars(
                "Held-out error by width",
                frames,
                "from 10 to 1,000 neurons",
                groups=range(len(WIDTHS)),
                names=tuple(lines),
            )
        ],
        moments,
        f"On the same {EXAMPLES:,} examples, {found} learned{few}.",
    )


def _and(widths: list[int]) -> str:
    *first, last = map(str, widths)
    return f"{', '.join(first)} and {last}" if first else last


WIDTH = Phenomenon(
    name="width-buys-data",
    shows="Wide networks learn from samples that are too small for narrow ones",
    source="Edelman, Goel, Kakade, Malach and Zhang (2023): Pareto frontiers in deep feature learning.",
    setting="ReLU networks of 10 to 1,000 neurons, each neuron with two non-zero initial weights, learn the parity "
    "of 3 of 50 signs from the same 1,000 examples.",
    watch="The narrow networks stay near chance on new inputs. The wide ones learn the parity from exactly the "
    "same examples.",
    theory="A neuron that begins with both of its weights on relevant inputs finds the third one fast. A wide "
    "network has more such lucky neurons, so width can stand in for data.",
    further=(
        "elegans run success-frontier --scale laptop",
        "elegans claims success-frontier",
        "elegans theory p_good_over",
    ),
    train=_width,
)


def _certificate(train: Train, seed: int) -> Story:
    network = trial(N, K, MADE, CHECKED).replace("model.width", 100).replace("training.stopping.stop", False)
    network = network.replace("training.stopping.error", 0).replace("seed", seed)
    outcome = train(network, ParameterTrajectory(every=CHECKED))
    kept = outcome.measures["parameter-trajectory"]
    names = [name for name in kept if name != "step"]
    steps, support = [int(step) for step in kept["step"]], network.task.draw(network.key("task"))
    at, error = errors_of(outcome)["held-out error"]
    errorless = dict(zip((int(step) for step in at), (value == 0 for value in error), strict=True))
    found = {}
    for place, step in enumerate(steps):
        if errorless.get(step):
            parameters: dict[str, dict[str, np.ndarray]] = {}
            for name in names:
                layer, _, part = name.partition(".")
                parameters.setdefault(layer, {})[part] = np.asarray(kept[name][place])
            found[step] = certify(replace(outcome, parameters=parameters), support=[int(each) for each in support])
    moments = [Moment(0, "The network guesses.")]
    for step, one in found.items():
        signs = "".join("+" if sign > 0 else "-" for sign in one.worst)
        told = {
            "proved": "Held-out error 0, and proved from the weights alone: it is right on all 2⁵⁰ inputs.",
            "refuted": f"Held-out error 0, but refuted: it is wrong on {signs}",
        }
        moments.append(Moment(step, told.get(one.verdict, "Held-out error 0; no proof and no counterexample found.")))
    refuted, proved = (sum(one.verdict == word for one in found.values()) for word in ("refuted", "proved"))
    margins = {
        "proved lower bound": (list(found), [one.margin for one in found.values()]),
        "smallest margin found": (list(found), [one.attained for one in found.values()]),
    }
    weight = np.asarray(kept["hidden.weight"], float)
    mass = (np.abs(weight) * np.abs(np.asarray(kept["output.weight"], float).reshape(len(steps), -1))[:, :, None]).sum(
        axis=1
    )
    groups = np.isin(np.arange(N), support).astype(int).tolist()
    names_of = ("other inputs", "the inputs that matter")
    return Story(
        steps,
        [
            Chart("No held-out input shows a mistake", {"held-out error": (at, error)}),
            Chart("Bounds on the smallest margin over all inputs", margins, {"below 0: wrong": 0.0}, scale="linear"),
        ],
        [Bars("How much each input can change the output", mass, "input", groups=groups, names=names_of)],
        moments,
        f"Of {len(found)} states without a mistake on 10,000 held-out inputs, {refuted} are refuted by an input and "
        f"{proved} are proved right on all 2⁵⁰; the others are open.",
    )


CERTIFICATE = Phenomenon(
    name="certificate",
    shows="A network with held-out error 0 can still be wrong: a certificate finds where",
    source="Affine and quadratic relaxations: Zhang et al. (2018), Raghunathan et al. (2018).",
    setting="A ReLU network of 100 neurons learns the parity of 3 of 50 signs from fresh examples. Every 100 "
    "steps the network "
    "is examined, if it makes no mistake on 10,000 held-out inputs.",
    watch="The held-out error reaches 0 and stays there. The smallest margin over all inputs never settles: the "
    "noise of "
    "training keeps small weights on the other inputs, and on some of the 2⁵⁰ inputs these add up against the "
    "answer.",
    theory="A two-layer network is small enough to be bounded on all 2⁵⁰ inputs at once. Counterexamples are "
    "confirmed in exact arithmetic, and proofs allow for every rounding error.",
    further=("elegans run lottery-tickets --scale laptop", "elegans theory information_bits n=50 k=3"),
    train=_certificate,
)


INPUTS, BITS, DRAWN, RUNS = 30, 4, 10_000, 9
"""Inputs and bits of the parity, the steps of every network, and how often each small network is trained."""


def _lottery(train: Train, seed: int) -> Story:
    parent = wide(INPUTS, BITS, DRAWN).replace("training.weight_decay", 0.0).replace("seed", seed)
    outcome = train(parent, StrongestNeurons(every=parent.steps, count=BITS))
    strongest = {name: values[-1] for name, values in outcome.measures["strongest-neurons"].items()}
    tickets = ticket_trials(parent, strongest)
    networks = {
        "the ticket": tickets["product"],
        "other neurons of the same network": tickets["others"],
        "fresh neurons": fresh_trial(parent),
    }
    lines: dict[str, Any] = {}
    solved, found = [], {}
    for name, one in networks.items():
        curves = []
        for number in range(RUNS):
            again = one.replace("seed", FIRST_SEED + RUNS * seed + number)
            measures = train(again, HeldOutErrorRate(every=EVERY), WeightTrajectory(every=EVERY), errors=False).measures
            if name == "the ticket" and not number:
                weight, measured = np.abs(np.asarray(measures["weight-trajectory"]["weight"], float)), again
                steps = [int(step) for step in measures["weight-trajectory"]["step"]]
            at, error = measures["test-error"]["step"], np.asarray(measures["test-error"]["error"], float)
            curves.append(np.interp(steps, at, error))
        times = [first_below(steps, curve, 0.1) for curve in curves]
        found[name] = sorted(step for step in times if step is not None)
        lines[name] = (steps, np.median(curves, axis=0))
        solved.append([sum(step <= now for step in found[name]) for now in steps])
    lines["the whole network, 100 neurons"] = errors_of(outcome)["held-out error"]
    support = np.isin(np.arange(INPUTS), measured.task.draw(measured.key("task"))).astype(int).tolist()
    moments = [Moment(0, "Four neurons are back at their initial values, and alone.")]
    moments += [
        Moment(each[0], f"{name.capitalize()}: the network has learned in the first of {RUNS} runs.")
        for name, each in found.items()
        if each
    ]
    ticket, others, fresh = (len(each) for each in found.values())
    return Story(
        steps,
        [Chart(f"Held-out error: medians of {RUNS} runs, and the one whole network", lines)],
        [
            Bars("Runs that have learned", np.array(solved).T, "network", groups=range(3), names=tuple(networks)),
            Bars(
                "Weights of the ticket on each input",
                weight.sum(axis=1),
                "input",
                groups=support,
                names=("other inputs", "the inputs that matter"),
            ),
        ],
        moments,
        f"The four strongest neurons of a trained network, rewound to their initial values, learned in {ticket} of "
        f"{RUNS} runs, four other neurons of the same network in {others}, and four fresh neurons in {fresh}.",
    )


LOTTERY = Phenomenon(
    name="lottery-ticket",
    shows="Four neurons of a trained network learn alone from their initial values; four others rarely do",
    source="Edelman, Goel, Kakade, Malach and Zhang (2023), figure 5; after Frankle and Carbin (2019).",
    setting="A ReLU network of 100 neurons, each with two non-zero initial weights, learns the parity of 4 of 30 "
    "signs. Its four strongest neurons go back to their initial values and are trained alone, nine times, on new "
    "examples and without weight decay. So are four other neurons of the network, and four fresh ones.",
    watch="The ticket takes one and a half to four times as many steps as the whole network. Four neurons from "
    "the same "
    "distribution that did not become strong mostly do not learn in the same time.",
    theory="Neurons that become strong began, on average, with more weight on the relevant inputs than the others. "
    "A hundred draws usually contain such neurons and four usually do not, so width buys lottery tickets. No "
    "theorem says how "
    "many steps a ticket saves. With weight decay its advantage shrinks.",
    further=(
        "elegans run lottery-tickets --scale laptop",
        "elegans claims lottery-tickets",
        "elegans theory p_good_over",
    ),
    train=_lottery,
)
