"""Wide, sparsely initialised networks for tables: fits of many networks side by side, and scikit-learn estimators."""

from elegans.tabular.descent import Stop, link
from elegans.tabular.network import Epoch, Networks, Settings, fit, start

__all__ = ["Epoch", "Networks", "Settings", "Stop", "fit", "link", "start"]
