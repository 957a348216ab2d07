"""Exact classifiers without sparse features: what their margins lack.

Source: thesis, appendix D.4.
"""

import numpy as np

from elegans.experiments import Claim, Experiment, Results, Tables
from elegans.experiments.checks import COMPUTED, check, checks
from elegans.experiments.rules import theorem
from elegans.groups import Group
from elegans.studies.feature_margins.theory.cyclic import (
    cyclic_maximum_margin,
    dense_classifier,
    dense_classifier_margin,
)
from elegans.studies.feature_margins.theory.diagnostics import cyclic_powers
from elegans.studies.feature_margins.theory.groups import group_maximum_margin
from elegans.studies.feature_margins.theory.weights import normalised_margin

CLAIM = "margins/dense-classifier-has-lower-margin"
MODULI = {"smoke": (7,), "paper": (7, 11, 71)}
FUNCTIONS = {"smoke": 3, "paper": 20}
EXACT, BELOW = 1e-12, 1 - 1e-6
"""The deviation that rounding explains; a margin counts as lower if below this share of the largest."""


def analyse(results: Results) -> Tables:
    """Return the table ``checks``; functions are drawn from the run's first seed."""
    moduli, generator = MODULI[results.scale], np.random.default_rng([0, results.first_seed])
    added = {p: np.add.outer(np.arange(p), np.arange(p)) % p for p in moduli}
    group = Group.parse("S3")
    random = [generator.integers(0, n, (n, n)) for n in generator.integers(2, 12, FUNCTIONS[results.scale])]
    labels = [*added.values(), np.asarray(group.table), *random]
    networks = [(table, dense_classifier(table, balanced=balanced)) for table in labels for balanced in (True, False)]
    logits = [np.abs(network.logits() - np.eye(len(table))[table.ravel()]).max() for table, network in networks]
    flat = []
    for p, table in added.items():
        network = dense_classifier(table)
        for part in (network.u, network.v, network.w):
            powers = cyclic_powers(part)
            flat.append(np.abs(powers[:, 1:].max(axis=1) / powers.sum(axis=1) * p / 2 - 1).max())
    known = [(added[p], cyclic_maximum_margin(p)) for p in moduli] + [(group.table, group_maximum_margin(group))]
    rows = [
        check(CLAIM, "logits are the indicator of the right label", logits, EXACT),
        check(CLAIM, "neurons beyond two per pair", [len(one.u) - 2 * table.size for table, one in networks], 0),
        check(CLAIM, "largest share of power is 2 / p", flat, EXACT),
    ]
    for balanced, name in ((False, "as written"), (True, "after rescaling u, v and w")):
        pairs = [(normalised_margin(dense_classifier(table, balanced), table), table, best) for table, best in known]
        closed = [abs(margin / dense_classifier_margin(len(table), balanced) - 1) for margin, table, _ in pairs]
        rows += [
            check(CLAIM, f"margin in closed form, {name}", closed, EXACT),
            check(CLAIM, f"margin as a share of the largest, {name}", [one / best for one, _, best in pairs], BELOW),
        ]
    return checks(rows)


EXPERIMENT = Experiment(
    name="dense-classifier",
    shows="Exact classifiers with flat spectra exist, but have only a fraction of the largest margin",
    source="appendix D.4",
    scales={"smoke": COMPUTED, "paper": COMPUTED},
    analyse=analyse,
    claims=[
        Claim(
            id="margins/dense-classifier-has-lower-margin",
            statement="Exact classifiers of this form exist with two neurons per pair of inputs and flat Fourier "
            "spectra, so correctness does not force sparsity; their margin is below the largest.",
            source="appendix D.4, section 7.1",
            setting="any labels of pairs, 2 n^2 neurons (printed: 2 p^2); not stated: the value of the margin",
            rule="Computed for addition mod 7, 11 and 71, S3 and 20 random functions: logits are the indicator and, "
            "for addition, the largest share of power of u, v and w is 2/p (1e-12); where the largest margin is known "
            "the network's is below it, as written and after the best rescaling between u, v and w. No sampling error.",
            decide=theorem(CLAIM),
        )
    ],
)
