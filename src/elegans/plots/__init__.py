"""One function per kind of picture: each takes a table or an outcome, and the axes to draw on."""

from elegans.plots.contour import traced_frontier
from elegans.plots.curves import learning_curve
from elegans.plots.errors import error_curves
from elegans.plots.figures import figure_of
from elegans.plots.frontier import success_frontier
from elegans.plots.theory import overlay_theory
from elegans.plots.tickets import learned_by
from elegans.plots.transitions import success_and_time

__all__ = [
    "error_curves",
    "figure_of",
    "learned_by",
    "learning_curve",
    "overlay_theory",
    "success_and_time",
    "success_frontier",
    "traced_frontier",
]
