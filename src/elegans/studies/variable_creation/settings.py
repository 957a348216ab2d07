"""Sparse functions of bits learned by a one-layer transformer: networks and trainings that the experiments share.

The network is the thesis' network: width 64, 16 heads, dropout 0.1, trained positions, and an output read only at a
class token. What the thesis leaves open is settled as in the public code that it names: layer norms before each layer,
gradients clipped at a norm of 1, and weight decay only on the matrices of linear maps. Parities are trained like
conjunctions, but on fresh examples.

Source: thesis, section 4.6 and appendix A.3; Edelman, Goel, Kakade and Zhang, "Inductive biases and variable creation
in self-attention mechanisms" (ICML 2022).
"""

from collections.abc import Sequence
from typing import Any

from elegans.models import BooleanTransformer
from elegans.stopping import StoppingRule
from elegans.tasks import And, IdentifiableSample, Online, SparseBoolean
from elegans.training import Adam, Trial

K = 3
"""The number of bits that the label depends on."""
ABOVE_99 = 0.0099
"""The largest error with accuracy above 0.99 on 10^4 examples: 99 mistakes."""
DROPOUT = 0.1


def conjunction(
    n: int = 100,
    size: int = 100,
    *,
    support: Sequence[int] | None = None,
    steps: int = 1000,
    every: int = 10,
    error: float = ABOVE_99,
    stop: bool = True,
    **model: Any,
) -> Trial:
    """Return a transformer and its full-batch training on a fixed sample of a conjunction of three bits.

    A bit is 1 with probability 2^(-1/3), so half of the labels are positive; no other conjunction is consistent
    with the sample. ``n`` is the thesis' T, ``size`` its m; without a ``support`` each trial draws its own. ``error``
    is the held-out error, on 10^4 examples, that counts as solved, and ``model`` are further fields of
    ``BooleanTransformer``.
    """
    task = SparseBoolean(n=n, k=K, support=support, function="and", p=And().balancing_bias(K))
    success = StoppingRule(error=error, every=every, stop=stop)
    return _trial(
        task, IdentifiableSample(size=size), model, batch_size=size, batches="epochs", steps=steps, stopping=success
    )


def parity(
    n: int = 10,
    *,
    batch_size: int = 2048,
    steps: int = 3000,
    every: int = 10,
    consecutive: int = 10,
    error: float = ABOVE_99,
    **model: Any,
) -> Trial:
    """Return a transformer and its training on fresh examples of the parity of three uniform bits.

    Training ends after this many ``consecutive`` checks with at most this ``error``; ``model`` are further fields of
    ``BooleanTransformer``.
    """
    success = StoppingRule(error=error, every=every, consecutive=consecutive)
    task = SparseBoolean(n=n, k=K, function="parity")
    return _trial(task, Online(), model, batch_size=batch_size, steps=steps, stopping=success)


def _trial(task: SparseBoolean, regime: Any, model: dict[str, Any], **training: Any) -> Trial:
    network = BooleanTransformer(**{"dropout": DROPOUT, **model})
    adam = Adam(
        weight_decay=1e-4,
        layers={name: {"weight_decay": 0} for name in network.undecayed},
        clip=1.0,
        loss="logistic",
        **training,
    )
    return Trial(task=task, regime=regime, model=network, training=adam)
