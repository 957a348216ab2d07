"""How many parameters the transformer of the sparse-function experiments has.

Arguments outside a function's hypotheses or domain raise ``TheoryError``.
"""

from elegans.calculators.domain import require_positive


def transformer_parameters(T: int, width: int = 64, hidden: int | None = None, outputs: int = 2) -> int:
    """Return the number of parameters of a one-layer transformer with layer norms, biases and trained positions.

    The thesis mentions both a scalar output and two output embeddings; its list of hyperparameters has two.

    Formula: embeddings d (3 + T + 1), attention 4 d (d + 1), MLP d h + h + h d + d, three layer norms 6 d,
        logits d c without bias: 50 432 + 64 (T + 1) at d = 64, h = 256, c = 2, whatever the number of heads.
    Source: thesis, appendix A.3.1 ("about 10^5"), and the defaults of the code that it names; counted here.

    Args:
        T: the number of bits; the class token has its own position.
        width: d.
        hidden: h, the MLP's width; None for 4 d.
        outputs: c, the number of logits.
    """
    inner = 4 * width if hidden is None else hidden
    require_positive("appendix A.3.1", T=T, width=width, hidden=inner, outputs=outputs)
    embeddings, attention = width * (3 + T + 1), 4 * width * (width + 1)
    mlp, norms = 2 * width * inner + inner + width, 6 * width
    return embeddings + attention + mlp + norms + outputs * width
