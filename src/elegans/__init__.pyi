from elegans import (
    analysis as analysis,
    certificates as certificates,
    errors as errors,
    experiments as experiments,
    explorer as explorer,
    groups as groups,
    learners as learners,
    models as models,
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
from elegans.analysis import *
from elegans.certificates import *
from elegans.errors import *
from elegans.explorer import *
from elegans.groups import *
from elegans.learners import *
from elegans.models import *
from elegans.probes import *
from elegans.stopping import *
from elegans.store import *
from elegans.sweeps import *
from elegans.tabular import *
from elegans.tasks import *
from elegans.training import *

__version__: str
