"""Each quantity that a probe measures is named where the reference says what the probe measures."""

import inspect
import re

import pytest

import elegans as el
from elegans.probes import Probe

PARITY = el.Trial(task=el.SparseParity(n=8, k=2), regime=el.Sample(50), model=el.MLP(width=6), training=el.SGD(steps=2))
SUMS = el.Trial(
    task=el.ModularAddition(p=7),
    regime=el.Split(0.5),
    model=el.MLP(width=12, activation="power:2", hidden_bias=False, output_bias=False),
    training=el.SGD(steps=2, loss="cross-entropy"),
)
SPARSE = PARITY.replace("model", {"kind": "mlp", "width": 8, "init": "over-sparse:5"}).replace(
    "training", {"kind": "over-sparse", "readout": "ridge"}
)


@pytest.mark.parametrize(
    ("trial", "kinds"),
    [
        (PARITY, "test-error test-loss train-error fourier-gap weight-movement coordinate-check weight-trajectory"),
        (PARITY, "relevant-weights support-share"),
        (SUMS, "progress-measures analytic-form layer-norms normalised-margin decomposition"),
        (SPARSE, "feature-selection"),
    ],
)
def test_a_probe_names_what_it_measures(trial: el.Trial, kinds: str) -> None:
    probes = [Probe.of_kind(kind)(every=1) for kind in kinds.split()]
    outcome = el.train(trial, probes=probes)
    for probe in probes:
        text = inspect.getdoc(getattr(type(probe), "evaluate", type(probe).measure)) or ""
        named = set(re.findall(r"[a-z_]+", " ".join(re.findall("``(.+?)``", text))))
        measured = {part.rstrip("0123456789") for name in outcome.measures[probe.kind] for part in name.split(".")}
        assert measured - {"step"} <= named, probe.kind
