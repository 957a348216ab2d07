from .base import Probe as Probe, Snapshot as Snapshot
from .coordinates import CoordinateCheck as CoordinateCheck
from .errors import HeldOutErrorRate as HeldOutErrorRate, HeldOutLoss as HeldOutLoss, TrainErrorRate as TrainErrorRate
from .fourier import FourierGap as FourierGap
from .langevin import Langevin as Langevin, LangevinChains as LangevinChains
from .movement import WeightMovement as WeightMovement
from .weights import (
    Checkpoints as Checkpoints,
    ParameterTrajectory as ParameterTrajectory,
    RelevantWeights as RelevantWeights,
    WeightTrajectory as WeightTrajectory,
)
