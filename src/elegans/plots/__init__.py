"""One function per kind of picture: each takes a table or an outcome, and the axes to draw on."""

from elegans.plots.curves import learning_curve
from elegans.plots.figures import figure_of
from elegans.plots.frontier import success_frontier

__all__ = ["figure_of", "learning_curve", "success_frontier"]
