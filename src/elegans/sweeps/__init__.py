"""Many trials: grids, the store of their outcomes, and the runner that trains what is missing."""

from elegans.sweeps.grid import EXAMPLE, Sweep, grid
from elegans.sweeps.progress import Progress
from elegans.sweeps.runner import Interrupted, run
from elegans.sweeps.status import RunStatus, Status
from elegans.sweeps.store import Store

__all__ = ["EXAMPLE", "Interrupted", "Progress", "RunStatus", "Status", "Store", "Sweep", "grid", "run"]
