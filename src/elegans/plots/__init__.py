"""One function per kind of picture: each takes a table or an outcome, and the axes to draw on."""

from elegans.plots.boxes import boxes
from elegans.plots.contour import traced_frontier
from elegans.plots.course import courses
from elegans.plots.curves import learning_curve
from elegans.plots.digits import digit_curves
from elegans.plots.errors import error_curves, error_grid
from elegans.plots.figures import figure_of
from elegans.plots.frontier import success_frontier
from elegans.plots.luck import luck_of_times
from elegans.plots.power_laws import power_laws
from elegans.plots.predictors import predictors
from elegans.plots.robust import robust_space
from elegans.plots.theory import overlay_theory
from elegans.plots.tickets import learned_by
from elegans.plots.transitions import success_and_time

__all__ = [
    "boxes",
    "courses",
    "digit_curves",
    "error_curves",
    "error_grid",
    "figure_of",
    "learned_by",
    "learning_curve",
    "luck_of_times",
    "overlay_theory",
    "power_laws",
    "predictors",
    "robust_space",
    "success_and_time",
    "success_frontier",
    "traced_frontier",
]
