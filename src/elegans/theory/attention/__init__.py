"""Attention on sparse Boolean functions: constructions, capacity, generalisation, and how trained heads compare.

Source of all here, unless a docstring names another: Edelman's thesis, chapter 4 and appendix A, after Edelman, Goel,
Kakade and Zhang, "Inductive Biases and Variable Creation in Self-Attention Mechanisms" (ICML 2022).
"""

from elegans.theory.attention.capacity import (
    BlockNorms,
    HeadNorms,
    block_lipschitz,
    depth_amplification,
    depth_capacity,
    depth_capacity_simplified,
    head_capacity,
    heads_capacity,
)
from elegans.theory.attention.codes import (
    Codes,
    attention_inputs,
    code_coherence,
    orthonormal_codes,
    random_codes,
)
from elegans.theory.attention.construction import (
    Construction,
    construct,
)
from elegans.theory.attention.covering import (
    Allocation,
    cover_allocation,
    head_change,
    head_cover,
    linear_cover,
    matrix_cover,
)
from elegans.theory.attention.generalisation import (
    dudley_bound,
    generalisation_gap,
    generalisation_sample,
    rademacher_bound,
    risk_gap,
)
from elegans.theory.attention.losses import correlation_loss, logistic_loss
from elegans.theory.attention.measures import (
    AttentionNorms,
    AttentionShare,
    attention_norms,
    attention_share,
    implied_score_gap,
    score_gap,
)
from elegans.theory.attention.memorising import (
    Memoriser,
    memoriser,
    memoriser_bump,
    memoriser_norms,
    memoriser_shapes,
    memoriser_units,
)
from elegans.theory.attention.normalisation import (
    softmax,
    softmax_change,
    softmax_jacobian,
    softmax_sharpness,
    softmax_truncation,
)
from elegans.theory.attention.norms import (
    merged_query_key,
    mixed_norm,
    project_to_ball,
    row_norm_sum,
    token_norm,
)
from elegans.theory.attention.parameters import (
    transformer_parameters,
)
from elegans.theory.attention.perturbation import (
    Block,
    attention_block,
    attention_output,
    block_change_bound,
    input_change_bound,
    readout_change_bound,
    weight_change_bound,
)
from elegans.theory.attention.samples import (
    Identifiability,
    expected_consistent,
    identifiability,
    identifying_samples,
    support_agreement,
)
from elegans.theory.attention.selection import (
    Selection,
    SelectionNorms,
    selection_error,
    selection_flip_change,
    selection_gap,
    selection_heads,
    selection_norms,
    selection_separation,
    selection_target,
    selection_worst_error,
)
from elegans.theory.attention.shattering import (
    Shattering,
    attention_pdim_bound,
    attention_shattering,
)

__all__ = [
    "Allocation",
    "AttentionNorms",
    "AttentionShare",
    "Block",
    "BlockNorms",
    "Codes",
    "Construction",
    "HeadNorms",
    "Identifiability",
    "Memoriser",
    "Selection",
    "SelectionNorms",
    "Shattering",
    "attention_block",
    "attention_inputs",
    "attention_norms",
    "attention_output",
    "attention_pdim_bound",
    "attention_share",
    "attention_shattering",
    "block_change_bound",
    "block_lipschitz",
    "code_coherence",
    "construct",
    "correlation_loss",
    "cover_allocation",
    "depth_amplification",
    "depth_capacity",
    "depth_capacity_simplified",
    "dudley_bound",
    "expected_consistent",
    "generalisation_gap",
    "generalisation_sample",
    "head_capacity",
    "head_change",
    "head_cover",
    "heads_capacity",
    "identifiability",
    "identifying_samples",
    "implied_score_gap",
    "input_change_bound",
    "linear_cover",
    "logistic_loss",
    "matrix_cover",
    "memoriser",
    "memoriser_bump",
    "memoriser_norms",
    "memoriser_shapes",
    "memoriser_units",
    "merged_query_key",
    "mixed_norm",
    "orthonormal_codes",
    "project_to_ball",
    "rademacher_bound",
    "random_codes",
    "readout_change_bound",
    "risk_gap",
    "row_norm_sum",
    "score_gap",
    "selection_error",
    "selection_flip_change",
    "selection_gap",
    "selection_heads",
    "selection_norms",
    "selection_separation",
    "selection_target",
    "selection_worst_error",
    "softmax",
    "softmax_change",
    "softmax_jacobian",
    "softmax_sharpness",
    "softmax_truncation",
    "support_agreement",
    "token_norm",
    "transformer_parameters",
    "weight_change_bound",
]
