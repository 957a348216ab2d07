"""More data or a larger network? The success rate over sample size and width, by initialisation (figures 1, 4)."""

from typing import Any

from matplotlib.figure import Figure

from elegans.analysis import summarise_cells
from elegans.experiments.base import Experiment, Scale
from elegans.experiments.results import Tables, one_table
from elegans.plots import figure_of, success_frontier
from elegans.studies.pareto_frontiers.overlay import theory_lines
from elegans.studies.pareto_frontiers.rules import STEPS
from elegans.studies.pareto_frontiers.settings import SIZES, WIDTHS, panels, trial
from elegans.studies.pareto_frontiers.success_frontier_claims import CLAIMS, TASKS, falls
from elegans.sweeps import Sweep


def smoke(trials: int) -> Sweep:
    """Return a corner of the frontier: wide sparse networks solve (30, 3) where narrow ones do not."""
    return panels(trial(n=30, k=3, steps=1600), (1000, 300), (3, 30, 1000), trials)


def laptop(trials: int) -> Sweep:
    """Return the (50, 3) panels up to width 1000, with a fifth of the paper's steps, decisive columns first."""
    sizes = (1000, 600, 2000, 800, 1500, 3000, 300, 6000, 10_000, 30_000)
    return panels(trial(n=50, k=3, steps=20_000), sizes, WIDTHS[:5], trials)


def part(trials: int) -> Sweep:
    """Return the two (50, 3) panels up to width 3000."""
    return panels(trial(50, 3, steps=STEPS, every=250), SIZES, WIDTHS[:6], trials)


def paper(trials: int) -> Sweep:
    """Return all of figure 4: 24 panels, those of (50, 3) first, and widths up to 3000 before wider ones."""
    parts = [
        panels(trial(n, k, steps=STEPS, every=250), SIZES, widths, trials)
        for widths in (WIDTHS[:6], WIDTHS[6:])
        for n, k in TASKS
    ]
    return sum(parts, Sweep(()))


def plot(tables: Tables) -> Figure:
    """Draw one panel for each initialisation and task."""
    return figure_of(success_frontier(tables["table"]))


def findings(tables: Tables) -> dict[str, Any]:
    """Return the strongest evidence against a rise with width: the most significant fall over all pairs.

    ``p_adjusted`` is Fisher's one-sided p-value of a fall after Holm's adjustment over all pairs of widths.
    """
    pairs = falls(tables["table"])
    strongest = pairs.head(3).drop(columns=["falls"])
    return {
        "pairs_of_widths": len(pairs),
        "falls": int(pairs["falls"].sum()),
        "strongest": [{key: _plain(value) for key, value in row.items()} for row in strongest.to_dict("records")],
    }


def _plain(value: Any) -> Any:
    return float(f"{value:.2g}") if isinstance(value, float) else value


EXPERIMENT = Experiment(
    name="success-frontier",
    shows="More data or a larger network: wide networks need fewer examples, sparsely initialised ones fewer still",
    source="figures 1 (left) and 4",
    scales={
        "smoke": Scale(smoke, trials=8),
        "laptop": Scale(laptop, trials=20),
        "part": Scale(part, trials=50, part="both panels of (50, 3), up to width 3000"),
        "paper": Scale(paper, trials=50),
    },
    analyse=one_table(summarise_cells),
    plot=plot,
    findings=findings,
    claims=CLAIMS,
    lines={("regime.size", "model.width"): theory_lines},
)
