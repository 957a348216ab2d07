"""Rules of the claims on features from margins: each verdict that they can give, on made-up tables."""

import numpy as np
import pandas as pd
import pytest

from elegans.experiments.claims import judge
from elegans.experiments.registry import find
from elegans.experiments.results import Results
from elegans.studies.feature_margins import certificate_checks, certificates_cyclic, certificates_parity


def verdict(experiment, claim, tables):
    """Return what the rule of one claim says of tables."""
    (one,) = (each for each in find(experiment).claims if each.id == f"margins/{claim}")
    return judge([one], tables)[one.id]["verdict"]


def checked(claim, **satisfied):
    """Return a table of checks of one claim, by name satisfied or not."""
    rows = [
        {"claim": claim, "check": name.replace("_", " "), "cases": 1, "worst": 1.0, "limit": 2.0, "error_rate": 0.0}
        for name in satisfied
    ]
    return {"checks": pd.DataFrame(rows).assign(satisfied=list(satisfied.values()))}


THEORY = {
    "certificates-cyclic": ["theorem-7.7"],
    "certificates-groups": ["theorem-7.9", "uniform-weighting-picks-sign", "group-lemmas-as-printed"],
    "certificates-parity": ["theorem-7.8"],
    "dense-classifier": ["dense-classifier-has-lower-margin"],
    "character-condition": ["condition-holds-up-to-s5", "general-groups-use-a-subset"],
    "certificate-checks": ["certificate-lemmas"],
}


@pytest.mark.parametrize(("experiment", "claim"), [(one, claim) for one, claims in THEORY.items() for claim in claims])
@pytest.mark.parametrize(
    ("satisfied", "expected"),
    [
        ({"sum": True, "sum_as_printed": True}, "holds"),
        ({"sum": True, "sum_as_printed": False}, "holds in part"),
        ({"sum": False, "sum_as_printed": True}, "fails"),
        ({}, "undecided"),
    ],
)
def test_a_theorem_fails_by_one_violation_and_holds_in_part_by_a_misprint(experiment, claim, satisfied, expected):
    tables = checked(f"margins/{claim}", **satisfied) if satisfied else {"checks": pd.DataFrame(columns=["claim"])}
    assert verdict(experiment, claim, tables) == expected


def computed(experiment):
    """Return the checks of an experiment of theory at smoke scale, by name."""
    return find(experiment).analyse(Results(pd.DataFrame(), scale="smoke"))["checks"].set_index("check")


@pytest.mark.parametrize("experiment", THEORY)
def test_at_smoke_scale_only_what_is_printed_is_violated(experiment):
    table = computed(experiment)
    assert table["satisfied"][~table.index.str.endswith("as printed")].all()
    assert not table["satisfied"][table.index.str.endswith("as printed")].any()


def test_a_search_for_a_better_neuron_would_find_one(monkeypatch):
    monkeypatch.setattr(certificates_cyclic, "cyclic_maximum_margin", lambda p: 0.01 / p)
    table = computed("certificates-cyclic")
    assert not table.loc["best neuron of a search, over the closed form", "satisfied"]
    assert not table.loc["neurons of a wrong phase, as a share of the best", "satisfied"]


def test_a_parity_of_a_smaller_closed_form_is_refuted(monkeypatch):
    monkeypatch.setattr(certificates_parity, "parity_maximum_margin", lambda k: 0.5 if k > 1 else 0.7)
    assert not computed("certificates-parity").loc["best neuron of a search, over the closed form", "satisfied"]


def test_small_problems_have_a_largest_margin_that_random_networks_do_not_exceed():
    generator = np.random.default_rng(5)
    for _ in range(5):
        problem = certificate_checks.drawn(generator)
        value, masses, _ = certificate_checks.largest(problem)
        assert (masses @ problem.gaps).min() == pytest.approx(value, rel=1e-6)
        others = generator.dirichlet(np.full(len(masses), 0.05), 500)
        assert (others @ problem.gaps).min(axis=1).max() <= value * (1 + 1e-6)
