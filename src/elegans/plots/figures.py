"""From axes to the figure that they are on."""

from typing import Any, cast

import numpy as np
from matplotlib.figure import Figure


def figure_of(axes: Any) -> Figure:
    """Return the whole figure of some axes: of one, or of an array of them."""
    return cast(Figure, np.atleast_1d(np.asarray(axes, object)).ravel()[0].get_figure(root=True))
