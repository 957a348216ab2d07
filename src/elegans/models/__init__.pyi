from .activations import (
    ELU as ELU,
    GELU as GELU,
    Activation as Activation,
    LeakyReLU as LeakyReLU,
    OscillatingPolynomial as OscillatingPolynomial,
    Power as Power,
    ReLU as ReLU,
    ReLU6 as ReLU6,
    Sigmoid as Sigmoid,
    SiLU as SiLU,
    Sine as Sine,
    Sinusoid as Sinusoid,
    Softplus as Softplus,
    Tanh as Tanh,
    TriangleWave as TriangleWave,
    Zigzag as Zigzag,
)
from .attention import AttentionOnly as AttentionOnly
from .base import Model as Model
from .boolean import BooleanTransformer as BooleanTransformer
from .deep import DeepMLP as DeepMLP
from .features import (
    GatedLinear as GatedLinear,
    LinearPredictor as LinearPredictor,
    RandomFourier as RandomFourier,
    RandomReLU as RandomReLU,
)
from .inits import (
    AffineInit as AffineInit,
    BernoulliInit as BernoulliInit,
    ConstantInit as ConstantInit,
    DenseInit as DenseInit,
    GaussianInit as GaussianInit,
    Init as Init,
    LayeredInit as LayeredInit,
    ScaledInit as ScaledInit,
    SparseInit as SparseInit,
    SphereInit as SphereInit,
)
from .mlp import MLP as MLP
from .polynet import DisjointPolyNet as DisjointPolyNet, PolyNet as PolyNet
from .seeded import SeededInit as SeededInit
from .transformer import PairTransformer as PairTransformer, ParityTransformer as ParityTransformer
