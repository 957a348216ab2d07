from .dispatcher import Interrupted as Interrupted
from .example import EXAMPLE_TOML as EXAMPLE_TOML
from .frontier import Contour as Contour, trace_frontier as trace_frontier
from .progress import Progress as Progress
from .retrain import retrain as retrain
from .runner import run as run
from .sweep import Sweep as Sweep, grid as grid
