from .example import EXAMPLE as EXAMPLE
from .progress import Progress as Progress
from .rows import retrain as retrain
from .runner import Interrupted as Interrupted, run as run
from .status import RunStatus as RunStatus, Status as Status
from .store import Store as Store
from .sweep import Sweep as Sweep, grid as grid
from .trace import Contour as Contour, trace_frontier as trace_frontier
