from . import (
    analysis as analysis,
    certificates as certificates,
    errors as errors,
    experiments as experiments,
    explorer as explorer,
    groups as groups,
    learners as learners,
    models as models,
    phenomena as phenomena,
    plots as plots,
    probes as probes,
    random as random,
    stopping as stopping,
    store as store,
    studies as studies,
    sweeps as sweeps,
    tabular as tabular,
    tasks as tasks,
    theory as theory,
    training as training,
)
from .certificates import Certificate as Certificate, certify as certify, read_out as read_out, spectrum as spectrum
from .errors import ElegansError as ElegansError
from .experiments import (
    Experiment as Experiment,
    Scale as Scale,
    find as find,
    run_experiment as run_experiment,
    verdict_of as verdict_of,
)
from .explorer import explore as explore
from .groups import Group as Group
from .learners import KernelRidge as KernelRidge, Learner as Learner
from .models import (
    MLP as MLP,
    Activation as Activation,
    AttentionOnly as AttentionOnly,
    BernoulliInit as BernoulliInit,
    BooleanTransformer as BooleanTransformer,
    DeepMLP as DeepMLP,
    DenseInit as DenseInit,
    DisjointPolyNet as DisjointPolyNet,
    GaussianInit as GaussianInit,
    Init as Init,
    Model as Model,
    PairTransformer as PairTransformer,
    ParityTransformer as ParityTransformer,
    PolyNet as PolyNet,
    SparseInit as SparseInit,
)
from .probes import Probe as Probe, Snapshot as Snapshot
from .stopping import StoppingRule as StoppingRule
from .store import Store as Store
from .sweeps import (
    Sweep as Sweep,
    grid as grid,
    retrain as retrain,
    run as run,
    trace_frontier as trace_frontier,
)
from .tabular import (
    SparseMLPClassifier as SparseMLPClassifier,
    SparseMLPRegressor as SparseMLPRegressor,
    load_table as load_table,
)
from .tasks import (
    XOR as XOR,
    BiasedParity as BiasedParity,
    DigitParity as DigitParity,
    DisjointParity as DisjointParity,
    GroupComposition as GroupComposition,
    GroupOperation as GroupOperation,
    IdentifiableSample as IdentifiableSample,
    MarkovChains as MarkovChains,
    ModularAddition as ModularAddition,
    ModularArithmetic as ModularArithmetic,
    MonomialSum as MonomialSum,
    MultitaskParity as MultitaskParity,
    Online as Online,
    Population as Population,
    Regime as Regime,
    Sample as Sample,
    SparseBoolean as SparseBoolean,
    SparseParity as SparseParity,
    Split as Split,
    Task as Task,
)
from .training import (
    SGD as SGD,
    Adam as Adam,
    AdamW as AdamW,
    Loss as Loss,
    Outcome as Outcome,
    Training as Training,
    Trial as Trial,
    explain as explain,
    from_torch as from_torch,
    load_network as load_network,
    train as train,
)

__version__: str
