"""What advances trials.

``fused`` (native) takes two-layer networks and PolyNets on parities under SGD, ``pairs`` (native) two-layer networks
without biases on modular addition and finite groups, ``attention`` (native) attention-only transformers on sequences of
tokens, ``bits`` (native) transformers on bits that are read at a class token, ``jax`` every training by minibatches,
``layerwise`` the algorithms that train one layer after the other, ``learner`` what is not a network.
"""

from elegans.errors import EngineError, suggest
from elegans.training.engines import attention, bits, fused, layerwise, learner, pairs
from elegans.training.engines.base import Chunk, Engine, Interval, Plan
from elegans.training.engines.jax import JaxEngine
from elegans.training.trial import Trial

_ONE_BY_ONE = (fused, pairs, attention, bits, layerwise, learner)
ENGINES: dict[str, Engine] = {engine.name: engine for engine in (*(each.ENGINE for each in _ONE_BY_ONE), JaxEngine())}
"""Every engine by name, the one that ``auto`` prefers first."""

__all__ = ["ENGINES", "Chunk", "Engine", "Interval", "Plan", "choose"]


def choose(trial: Trial, name: str = "auto") -> Engine:
    """Return the engine of a name, or for ``auto`` the first that works here and takes the trial.

    Raises:
        EngineError: there is no such engine, it does not work on this machine, or it cannot take the trial.
    """
    if name != "auto" and name not in ENGINES:
        raise EngineError(f"unknown engine {name!r}{suggest(name, ['auto', *ENGINES])}")
    reasons = []
    for engine in ENGINES.values():
        if name not in ("auto", engine.name):
            continue
        reason = engine.unavailable() or engine.refusal(trial)
        if reason is None:
            return engine
        reasons.append(reason)
    raise EngineError(f"no engine for this trial: {'; '.join(reasons)}")
