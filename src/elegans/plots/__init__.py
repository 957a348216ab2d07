"""One function per kind of picture: each takes a table or an outcome, and the axes to draw on."""

from elegans.plots.attention import attention_by_position, attention_lines, attention_map
from elegans.plots.attention_pictures import attention_pictures
from elegans.plots.boxes import boxes
from elegans.plots.chain_stages import chain_stages
from elegans.plots.chain_steps import curriculum_steps, first_steps
from elegans.plots.chains import (
    chain_distances,
    chain_encodings,
    chain_laws,
    chain_losses,
    encoding_bars,
    induction_phases,
    positional_profiles,
    profile_map,
    shade_phases,
)
from elegans.plots.contour import traced_frontier
from elegans.plots.course import courses
from elegans.plots.curves import learning_curve
from elegans.plots.digits import digit_curves
from elegans.plots.disjoint import disjoint_courses
from elegans.plots.errors import error_curves, error_grid
from elegans.plots.figures import figure_of
from elegans.plots.films import AttentionCourse, attention_film, attention_page, course_of
from elegans.plots.frontier import success_frontier
from elegans.plots.gaps import gap_histograms
from elegans.plots.grids import success_grid
from elegans.plots.hidden import hidden_progress
from elegans.plots.induction import minimal_courses, one_layer_losses, unigram_delay
from elegans.plots.luck import luck_of_times
from elegans.plots.margins import (
    feature_counts,
    feature_shares,
    group_margins,
    margin_courses,
    modular_addition,
    neuron_rows,
    parity_margin,
    plain_courses,
    power_histogram,
    strongest_neurons,
)
from elegans.plots.plateaus import plateaus
from elegans.plots.power_laws import power_laws
from elegans.plots.prediction import prediction_dots
from elegans.plots.predictors import predictors
from elegans.plots.recovery import recovery_curves
from elegans.plots.robust import robust_space
from elegans.plots.selection import attention_pattern
from elegans.plots.tabular import tabular_errors, tabular_frontier
from elegans.plots.theorems import disjoint_descents, feature_steps
from elegans.plots.theory import overlay_theory
from elegans.plots.tickets import learned_by
from elegans.plots.transitions import success_and_time
from elegans.plots.variables import accuracy_curves, parity_courses, sample_thresholds
from elegans.plots.xor import xor_features, xor_phases, xor_samples

__all__ = [
    "AttentionCourse",
    "accuracy_curves",
    "attention_by_position",
    "attention_film",
    "attention_lines",
    "attention_map",
    "attention_page",
    "attention_pattern",
    "attention_pictures",
    "boxes",
    "chain_distances",
    "chain_encodings",
    "chain_laws",
    "chain_losses",
    "chain_stages",
    "course_of",
    "courses",
    "curriculum_steps",
    "digit_curves",
    "disjoint_courses",
    "disjoint_descents",
    "encoding_bars",
    "error_curves",
    "error_grid",
    "feature_counts",
    "feature_shares",
    "feature_steps",
    "figure_of",
    "first_steps",
    "gap_histograms",
    "group_margins",
    "hidden_progress",
    "induction_phases",
    "learned_by",
    "learning_curve",
    "luck_of_times",
    "margin_courses",
    "minimal_courses",
    "modular_addition",
    "neuron_rows",
    "one_layer_losses",
    "overlay_theory",
    "parity_courses",
    "parity_margin",
    "plain_courses",
    "plateaus",
    "positional_profiles",
    "power_histogram",
    "power_laws",
    "prediction_dots",
    "predictors",
    "profile_map",
    "recovery_curves",
    "robust_space",
    "sample_thresholds",
    "shade_phases",
    "strongest_neurons",
    "success_and_time",
    "success_frontier",
    "success_grid",
    "tabular_errors",
    "tabular_frontier",
    "traced_frontier",
    "unigram_delay",
    "xor_features",
    "xor_phases",
    "xor_samples",
]
