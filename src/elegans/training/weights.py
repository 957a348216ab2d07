"""Weights as safetensors files, with the trial that they belong to."""

import hashlib
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from elegans.errors import TrialError, printable, shown
from elegans.files import readable, replaced, writable
from elegans.models.base import dotted, leaves_by_name
from elegans.training.network import TrainedNetwork
from elegans.training.trial import Trial

FORMAT = "elegans 1"


def write_weights(path: str | Path, trial: Trial, arrays: Mapping[str, Any], **facts: Any) -> Path:
    """Write a trial's weights as a safetensors file, which most libraries read.

    Its metadata has the ``trial`` as JSON, its ``identity``, the ``digest`` of the weights and the version of elegans.

    Args:
        path: the file; an existing one is replaced once the new one is complete.
        trial: the trial.
        arrays: its parameter arrays by dotted name.
        **facts: further metadata; None is left out.

    Raises:
        TrialError: the file cannot be written.
    """
    from safetensors.numpy import save_file

    file = writable(path, "a file of weights", TrialError)
    tensors = {name: np.ascontiguousarray(array).reshape(np.shape(array)) for name, array in arrays.items()}
    metadata = {
        "format": FORMAT,
        "elegans": version("elegans"),
        "trial": trial.to_json(),
        "identity": trial.identity,
        "digest": _digest(tensors),
        **{name: str(value) for name, value in facts.items() if value is not None},
    }
    try:
        with replaced(file) as draft:
            save_file(tensors, draft, metadata)
    except OSError as error:
        rule = f"a file of weights must be writable: {printable(str(path))}"
        raise TrialError(f"{rule} ({error.strerror or error})") from None
    return file


def load_network(path: str | Path) -> TrainedNetwork:
    """Read a network that ``outcome.save`` or ``elegans export --weights`` wrote, and check it.

    Args:
        path: the safetensors file.

    Raises:
        TrialError: it is no such file, a class of its trial is not imported, or its weights or trial have changed
            since it was written.
    """
    from safetensors import SafetensorError, safe_open

    file = readable(path, "a file of weights", TrialError)
    label = printable(str(file))
    try:
        with safe_open(file, framework="numpy") as opened:
            metadata = opened.metadata() or {}
            arrays = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 (not a dictionary)
    except (OSError, SafetensorError) as error:
        raise TrialError(f"weights must be read from a safetensors file: {label} ({error})") from None
    if metadata.get("format") != FORMAT:
        found = shown(metadata.get("format"))
        raise TrialError(
            f"weights must come from a file that elegans wrote: {label} has format={found}, not {FORMAT!r}"
        )
    trial = Trial.from_json(metadata["trial"])
    for name, digest in (("identity", trial.identity), ("digest", _digest(arrays))):
        if metadata.get(name) != digest:
            raise TrialError(f"the {name} of a file of weights must be as written: {label}, {metadata.get(name)}")
    template = trial.model.initialise(trial.key("init"), trial.task)
    sizes = {name: array.shape for name, array in arrays.items()}
    expected = {name: np.shape(leaf) for name, leaf in leaves_by_name(template).items()}
    if sizes != expected:
        rule = "weights must fit the trial's model"
        raise TrialError(f"{rule}: {label} has {shown(sizes)}, not {shown(expected)}")
    import jax

    return TrainedNetwork(trial, jax.tree_util.tree_map_with_path(lambda at, _: arrays[dotted(at)], template))


def _digest(tensors: Mapping[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for name, array in sorted(tensors.items()):
        digest.update(f"{name}:{array.dtype.str}:{array.shape}:".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
