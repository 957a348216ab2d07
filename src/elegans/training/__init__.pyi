from .entry import train as train
from .explanation import Explanation as Explanation, explain as explain
from .layerwise.readouts import (
    Constructed as Constructed,
    FreshDescent as FreshDescent,
    LastIterate as LastIterate,
    LinearProgram as LinearProgram,
    Readout as Readout,
    Ridge as Ridge,
)
from .layerwise.selection import FeatureSelection as FeatureSelection
from .learning_coefficient import LocalLearningCoefficient as LocalLearningCoefficient
from .losses import (
    Correlation as Correlation,
    CrossEntropy as CrossEntropy,
    Hinge as Hinge,
    Logistic as Logistic,
    Loss as Loss,
    Margin as Margin,
    OneHotSquare as OneHotSquare,
    Square as Square,
)
from .mistakes import margins as margins
from .network import TrainedNetwork as TrainedNetwork, from_torch as from_torch
from .optimisers import (
    SGD as SGD,
    AdaDelta as AdaDelta,
    Adam as Adam,
    AdamW as AdamW,
    Adaptive as Adaptive,
    ExactDescent as ExactDescent,
    LayerRates as LayerRates,
    Minibatches as Minibatches,
    Training as Training,
)
from .outcome import Curve as Curve, ErrorCurve as ErrorCurve, Outcome as Outcome
from .parametrisation import Parametrisation as Parametrisation
from .penalties import NormPenalty as NormPenalty, Penalty as Penalty
from .schedules import (
    Constant as Constant,
    Cosine as Cosine,
    Piecewise as Piecewise,
    Schedule as Schedule,
    Warmup as Warmup,
)
from .trial import Trial as Trial
from .weights import load_network as load_network
