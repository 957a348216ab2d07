"""The engines that train trials.

- ``fused`` (native): two-layer networks and PolyNets, on parities and the like;
- ``pairs`` (native): two-layer networks without biases and transformers of one block, on modular arithmetic and finite
  groups;
- ``attention`` (native): attention-only transformers, on sequences of tokens;
- ``bits`` (native): transformers on bits that are read at a class token;
- ``layerwise``: algorithms that train one layer after the other;
- ``learner``: learners that are not networks;
- ``jax``: every training by minibatches.
"""

from collections.abc import Mapping
from typing import Any

from elegans.errors import EngineError, shown, suggest
from elegans.machine import memory
from elegans.training.engines import attention, bits, fused, layerwise, learner, pairs
from elegans.training.engines.base import Chunk, ChunkRequest, Engine, Interval
from elegans.training.engines.jax import JaxEngine
from elegans.training.trial import Trial

_ONE_BY_ONE = (fused, pairs, attention, bits, layerwise, learner)
ENGINES: dict[str, Engine] = {engine.name: engine for engine in (*(each.ENGINE for each in _ONE_BY_ONE), JaxEngine())}
"""Every engine by name, in the order in which ``auto`` tries them."""

SMALL_CHANGES: tuple[dict[str, Any], ...] = (
    {"model.hidden_bias": False, "model.output_bias": False},
    {"training.clip": None},
    {"training.penalty": None},
)
"""Changes that keep most of an experiment, in the order in which they are suggested: see ``fallback``."""

__all__ = ["ENGINES", "Chunk", "ChunkRequest", "Engine", "Interval", "choose", "fallback", "refusals"]


def choose(trial: Trial, name: str = "auto") -> Engine:
    """Return the engine of a given name, or for ``auto`` the first that works here and can train the trial.

    Raises:
        EngineError: the engine does not exist, does not work here or cannot train the trial, or memory is too small.
    """
    if name != "auto" and name not in ENGINES:
        raise EngineError(f"unknown engine {shown(name)}{suggest(name, ['auto', *ENGINES])}")
    if (needed := trial.memory) > (available := memory()):
        names = ("width", "widths", "heads", "head_size", "mlp_width", "batch_size")
        fields = {**vars(trial.model), **(vars(trial.training) if trial.training is not None else {})}
        sizes = ", ".join(f"{name}={shown(fields[name])}" for name in names if fields.get(name) is not None)
        memories = f"{needed / 2**30:.3g} GiB needed, {available / 2**30:.3g} GiB available"
        raise EngineError(f"a trial must fit into the memory of the machine: {memories}: {sizes}")
    reasons = refusals(trial, name)
    for engine in ENGINES.values():
        if name in ("auto", engine.name) and engine.name not in reasons:
            return engine
    raise EngineError(f"no engine for this trial: {'; '.join(reasons.values())}")


def refusals(trial: Trial, name: str = "auto") -> dict[str, str]:
    """Return by name why engines cannot train a trial: each engine that ``auto`` tries before it finds one that can."""
    reasons: dict[str, str] = {}
    for engine in ENGINES.values():
        if name in ("auto", engine.name):
            reason = engine.unavailable() or _refused_targets(engine, trial) or engine.refusal(trial)
            if reason is None:
                break
            reasons[engine.name] = reason
    return reasons


def _refused_targets(engine: Engine, trial: Trial) -> str | None:
    if trial.task.targets is None or engine.takes_targets:
        return None
    return f"the {engine.name} engine takes no task with real-valued targets: task={trial.task.kind!r}"


def fallback(trial: Trial, name: str = "auto") -> str | None:
    """Return in one line why ``auto`` leaves a trial to the general engine, or None if it does not."""
    if name != "auto" or choose(trial).name != "jax":
        return None
    kinds = [f"takes no {part}" for part in ("task", "model", "network", "training")]
    details = [reason for reason in refusals(trial).values() if not any(kind in reason for kind in kinds)]
    reason = "; ".join(details) or f"no native engine takes model {trial.model.kind!r} on task {trial.task.kind!r}"
    remedy = next(filter(None, (_gain(trial, change) for change in SMALL_CHANGES)), "")
    return f"note: the jax engine trains this, often many times slower than a native one: {reason}{remedy}"


def _gain(trial: Trial, change: Mapping[str, Any]) -> str | None:
    """Return which native engine trains the changed trial, as the end of a message, or None if none does."""
    for path, value in change.items():
        owner, _, name = path.partition(".")
        if not hasattr(getattr(trial, owner), name):
            return None
        trial = trial.replace(path, value)
    engine = choose(trial).name
    fields = " and ".join(f"{path.partition('.')[2]}={value}" for path, value in change.items())
    return None if engine == "jax" else f"; with {fields} the {engine} engine trains it"
