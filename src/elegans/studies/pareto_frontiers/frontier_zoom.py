"""A closer view of the success frontier (figure 2): sample sizes finely spaced around the transition.

The paper names neither (n, k) nor the widths and sizes of its figure: (50, 3) here, eight sizes per octave from the
last size at which nothing is learned to the first at which wide and narrow networks learn, and a coarser grid beyond.
"""

from typing import Any

from matplotlib.figure import Figure

from elegans.experiments.base import Experiment, Scale
from elegans.experiments.results import Tables, one_table
from elegans.studies.pareto_frontiers.frontier_zoom_claims import CLAIMS, SIZES as DECISIVE, WIDTHS as DECISIVE_WIDTHS
from elegans.studies.pareto_frontiers.plots import half_solved_from, success_and_time, timed_cells
from elegans.studies.pareto_frontiers.rules import STEPS
from elegans.studies.pareto_frontiers.settings import WIDTHS, panels, trial
from elegans.sweeps import Sweep


def spaced(first: float, last: float, per_octave: int) -> tuple[int, ...]:
    """Return whole numbers from first to last, evenly spaced on a logarithmic scale."""
    sizes, size = [], float(first)
    while size <= last * 1.001:
        sizes.append(round(size))
        size *= 2 ** (1 / per_octave)
    return tuple(sizes)


def coarse_first(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Return every fourth size, then those between: a run cut short then covers the whole range more coarsely."""
    return (*sizes[::4], *sizes[2::4], *sizes[1::2])


def smoke(trials: int) -> Sweep:
    """Return a few sizes of (30, 3), at two widths."""
    return panels(trial(n=30, k=3, steps=1600), spaced(300, 1200, 2), (30, 300), trials)


def laptop(trials: int) -> Sweep:
    """Return (50, 3) at widths 30 to 1000, with a fifth of the paper's steps."""
    sizes = (*spaced(400, 2400, 8), 3000, 4000, 6000, 10_000, 20_000, 40_000)
    return panels(trial(n=50, k=3, steps=20_000), coarse_first(sizes), WIDTHS[1:5], trials)


def part(trials: int) -> Sweep:
    """Return the widths and printed sizes of (50, 3) that decide the claims, with all steps."""
    return panels(trial(n=50, k=3, steps=STEPS, every=250), DECISIVE, DECISIVE_WIDTHS, trials)


def paper(trials: int) -> Sweep:
    """Return (50, 3) at widths up to 10000 with all steps, after the cells that decide the claims."""
    sizes = (*spaced(200, 3200, 8), *spaced(4000, 10**6, 1))
    finer = panels(trial(n=50, k=3, steps=STEPS, every=250), coarse_first(sizes), WIDTHS[1:7], trials)
    return part(trials) + finer


def plot(tables: Tables) -> Figure:
    """Draw dense networks above sparse ones."""
    return success_and_time(tables["table"], curve="model.width", panel="model.init")


def findings(tables: Tables) -> dict[str, Any]:
    """Return, for each initialisation and width, the first size at which at least half of the trials were solved."""
    first = half_solved_from(tables["table"], "network")
    return {"half_solved_from": {str(name): int(size) for name, size in first.items()}}


EXPERIMENT = Experiment(
    name="frontier-zoom",
    shows="Success and time to solve around the transition: curves move to fewer examples as networks widen",
    source="figure 2",
    scales={
        "smoke": Scale(smoke, trials=4),
        "laptop": Scale(laptop, trials=20),
        "part": Scale(part, trials=50, part="widths 10, 100 and 1000 at five printed sample sizes and online"),
        "paper": Scale(paper, trials=50),
    },
    analyse=one_table(timed_cells),
    plot=plot,
    findings=findings,
    claims=CLAIMS,
)
