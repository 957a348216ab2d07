from .aggregation import summarise_cells as summarise_cells
from .contours import crossings as crossings
from .differences import bootstrap_difference as bootstrap_difference, newcombe as newcombe
from .grokking import (
    Grokking as Grokking,
    error_courses as error_courses,
    grokking_delay as grokking_delay,
    grokking_delays as grokking_delays,
    grokking_summary as grokking_summary,
)
from .intervals import (
    bootstrap_interval as bootstrap_interval,
    mean_interval as mean_interval,
    median as median,
    median_interval as median_interval,
    quantile as quantile,
    rank_correlation as rank_correlation,
    rank_correlation_interval as rank_correlation_interval,
    wilson as wilson,
)
from .monotone import holm as holm, monotonicity as monotonicity
from .prediction import predictions as predictions
from .rates import (
    BestRate as BestRate,
    best_rate as best_rate,
    grid_optimum as grid_optimum,
    transfer_regret as transfer_regret,
)
from .reporting import (
    describe as describe,
    finite_or_none as finite_or_none,
    proportion as proportion,
    round_significant as round_significant,
)
from .scaling import (
    Elbow as Elbow,
    Scaling as Scaling,
    elbow as elbow,
    local_exponents as local_exponents,
    scaling_exponent as scaling_exponent,
)
from .sequential import SequentialTest as SequentialTest
from .survival import Survival as Survival, kaplan_meier as kaplan_meier
from .thresholds import (
    Growth as Growth,
    estimate_threshold as estimate_threshold,
    growth as growth,
    threshold_draws as threshold_draws,
)
from .variance import VarianceComponents as VarianceComponents, variance_components as variance_components
