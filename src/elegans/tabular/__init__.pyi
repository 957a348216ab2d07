from .base import SparseMLP as SparseMLP
from .datasets import (
    load_table as load_table,
    noisy_parity as noisy_parity,
    random_tree as random_tree,
    table_names as table_names,
)
from .descent import StopSignal as StopSignal, inverse_link as inverse_link
from .estimators import (
    SparseMLPClassifier as SparseMLPClassifier,
    SparseMLPRegressor as SparseMLPRegressor,
)
from .learners import Forest as Forest, TabularNetwork as TabularNetwork
from .network import Epoch as Epoch, Networks as Networks, fit as fit, init_networks as init_networks
from .probes import ValidationErrorRate as ValidationErrorRate
from .settings import Settings as Settings
from .shared import (
    SharedNetworks as SharedNetworks,
    SharedSettings as SharedSettings,
    init_shared as init_shared,
)
from .stopping import BestEpoch as BestEpoch
from .table import Table as Table
