"""What is seen inside a network while it learns."""

from elegans.probes.base import Probe, Snapshot
from elegans.probes.biased import ComponentLosses, PredictorSize
from elegans.probes.chains import AttentionMaps, AttentionScores, ChainLosses, PositionalProfile
from elegans.probes.errors import TestError, TestLoss, TrainError
from elegans.probes.features import FrequencyPower, IrrepPower, ParityNeurons
from elegans.probes.fourier import FourierGap
from elegans.probes.margins import Decomposition, NormalisedMargin
from elegans.probes.movement import WeightMovement
from elegans.probes.neurons import StrongestNeurons
from elegans.probes.selection import ClassWeights, SelectionHeads
from elegans.probes.weights import ParameterTrajectory, RelevantWeights, WeightTrajectory
from elegans.probes.xor import SignalHeavy, SubspaceShare, XORMargins, XORParts

__all__ = [
    "AttentionMaps",
    "AttentionScores",
    "ChainLosses",
    "ClassWeights",
    "ComponentLosses",
    "Decomposition",
    "FourierGap",
    "FrequencyPower",
    "IrrepPower",
    "NormalisedMargin",
    "ParameterTrajectory",
    "ParityNeurons",
    "PositionalProfile",
    "PredictorSize",
    "Probe",
    "RelevantWeights",
    "SelectionHeads",
    "SignalHeavy",
    "Snapshot",
    "StrongestNeurons",
    "SubspaceShare",
    "TestError",
    "TestLoss",
    "TrainError",
    "WeightMovement",
    "WeightTrajectory",
    "XORMargins",
    "XORParts",
]
