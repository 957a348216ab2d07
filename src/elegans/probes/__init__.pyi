from .base import Probe as Probe, Snapshot as Snapshot
from .errors import TestError as TestError, TestLoss as TestLoss, TrainError as TrainError
from .fourier import FourierGap as FourierGap
from .movement import WeightMovement as WeightMovement
from .weights import (
    ParameterTrajectory as ParameterTrajectory,
    RelevantWeights as RelevantWeights,
    WeightTrajectory as WeightTrajectory,
)
