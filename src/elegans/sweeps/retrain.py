"""The trial, and the retrained network, of a table's row."""

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

from elegans.component import Component
from elegans.errors import ElegansWarning, SweepError, TrialError
from elegans.probes import Probe
from elegans.store.tables import as_record, same
from elegans.training.entry import train
from elegans.training.outcome import Outcome
from elegans.training.trial import Trial

if TYPE_CHECKING:
    from elegans.store.tables import Row

CHECKED = ("state", "solved_at", "steps", "test_error", "train_error")
"""Columns in which a retrained trial must agree with its record."""


def retrain(
    of: "Trial | Outcome | Row",
    *,
    probes: Sequence[Probe] = (),
    engine: str | None = None,
    progress: bool | None = None,
) -> Outcome:
    """Train a trial of a table, a store or a sweep again, and return its outcome with its network.

    On the same machine with the same versions, the network is bit-identical to the sweep's if the engine trains one
    network at a time, as all native ones do. Networks that ``jax`` trained side by side agree within rounding; to keep
    the exact weights, add the probe ``ParameterTrajectory`` to the sweep.

    Args:
        of: a row of a table, an outcome or a trial.
        probes: measures to take during training.
        engine: an engine's name; by default the recorded one, or ``auto`` for a trial.
        progress: whether to show the progress, as in ``train``.

    Raises:
        SweepError: it is not a row with all columns of a trial; ``Store.trial(row)`` finds the trials of other rows.
        EngineError: the engine cannot train the trial.

    Warns:
        ElegansWarning: retraining did not reproduce the recorded outcome.
    """
    if isinstance(of, Trial):
        return train(of, probes=probes, engine=engine or "auto", progress=progress)
    recorded = {name: getattr(of, name) for name in (*CHECKED, "engine")} if isinstance(of, Outcome) else as_record(of)
    trial = of.trial if isinstance(of, Outcome) else trial_of(recorded)
    chosen = engine or recorded.get("engine") or "auto"
    outcome = train(trial, probes=probes, engine=chosen, progress=progress)
    pairs = {name: (recorded[name], getattr(outcome, name)) for name in CHECKED if name in recorded}
    changed = [f"{name} {now} instead of {then}" for name, (then, now) in pairs.items() if then != now]
    if changed:
        warnings.warn(
            f"retraining did not reproduce the recorded outcome: {', '.join(changed)}", ElegansWarning, stacklevel=3
        )
    return outcome


def trial_of(columns: Mapping[str, Any]) -> Trial:
    """Return the trial whose dotted columns and seed are in a record.

    Raises:
        SweepError: a column is missing, or the columns do not determine the trial.
    """
    try:
        trial = Trial.parse(_fields(Trial, "", columns))
    except TrialError as error:
        raise SweepError(f"a row must have the columns of a trial: {error}") from None
    made = trial.columns()
    own = {name: value for name, value in columns.items() if name.partition(".")[0] in Trial.model_fields}
    for name in own.keys() | made.keys():
        if not same(made.get(name), own.get(name)):
            named = f"{name}={own.get(name)!r} would be {made.get(name)!r}; Store.trial(row) finds it in its store"
            raise SweepError(f"a row must determine its trial: {named}")
    return trial


def _fields(cls: type[Component], prefix: str, columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a component from the columns of its trial."""
    found: dict[str, Any] = {}
    for name, field in cls.model_fields.items():
        path = f"{prefix}{name}"
        inner = _component_in(field.annotation)
        if path not in columns:
            if field.is_required():
                raise SweepError(f"a row must have all columns of its trial: {path!r} is missing")
        elif inner is not None and isinstance(columns[path], str):
            found[name] = _component(inner, path, columns)
        else:
            found[name] = columns[path]
    return found


def _component(family: type[Component], path: str, columns: Mapping[str, Any]) -> Any:
    """Return a component's record from its label and its fields' columns; some labels are sufficient."""
    label = columns[path]
    if not hasattr(family, "_members"):
        return _fields(family, f"{path}.", columns)
    try:
        cls = family.of_kind(label.partition(":")[0])
    except ValueError:
        return label
    return {"kind": cls.kind, **_fields(cls, f"{path}.", columns)}


def _component_in(annotation: Any) -> type[Component] | None:
    if isinstance(annotation, type) and issubclass(annotation, Component):
        return annotation
    if getattr(annotation, "__origin__", None) in (dict, tuple, list):
        return None
    found = (_component_in(part) for part in get_args(annotation))
    return next((part for part in found if part is not None), None)
