"""Width that buys data, in a minute."""

import numpy as np

from elegans.phenomena import Bars, Chart, Moment, Phenomenon, Story
from elegans.phenomena.base import Train, errors_of, first_below
from elegans.studies.pareto_frontiers.settings import trial
from elegans.tasks import Sample

N, K, EVERY = 50, 3, 200
WIDTHS, EXAMPLES, STEPS = (10, 30, 100, 300, 1000), 1000, 20_000


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
    few = f"; with {', '.join(map(str, fails))} neurons it did not" if fails else ""
    found = f"with {', '.join(map(str, learned))} neurons" if learned else "with no number of neurons"
    return Story(
        steps,
        [Chart(f"The same {EXAMPLES:,} examples, five widths", lines)],
        [
            Bars(
                "Held-out error by width",
                frames,
                "from 10 to 1000 neurons",
                groups=range(len(WIDTHS)),
                names=tuple(lines),
            )
        ],
        moments,
        f"On {EXAMPLES:,} examples the network learned {found}{few}.",
    )


WIDTH = Phenomenon(
    name="width-buys-data",
    shows="Wider networks learn from examples that are too few for narrow ones",
    source="Edelman, Goel, Kakade, Malach and Zhang (2023): Pareto frontiers in deep feature learning.",
    setting="ReLU networks of 10 to 1000 neurons, each neuron with two non-zero initial weights, learn the parity of 3 of 50 "
    "signs from the same 1,000 examples.",
    watch="The narrow networks know their examples by heart and guess on all others. The wide ones learn the parity from "
    "exactly the same examples.",
    theory="A neuron that begins with both of its weights on relevant inputs finds the third one fast. A wide network has "
    "more such lucky neurons: width buys what data would have to buy otherwise.",
    further=(
        "elegans run success-frontier --scale laptop",
        "elegans claims success-frontier",
        "elegans theory p_good_over",
    ),
    train=_width,
)
