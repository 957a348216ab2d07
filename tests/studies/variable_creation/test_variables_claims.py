"""The rules that decide the claims on sparse functions and attention, on made-up tables."""

import pandas as pd
import pytest

from elegans.experiments.checks import check, checks
from elegans.experiments.claims import Lacking
from elegans.experiments.results import Results
from elegans.studies.variable_creation import bit_symmetry, capacity_check, exact_representation, selection_heads

MODULES = (bit_symmetry, capacity_check, exact_representation, selection_heads)
THEORY = {claim.id: claim for module in MODULES for claim in module.CLAIMS}


@pytest.mark.parametrize("name", THEORY)
def test_statements_of_theory_hold_in_part_where_one_check_is_violated(name):
    good, bad = check(name, "first", 0.5, 1), check(name, "second", 2, 1)
    other = check("variables/another", "third", 2, 1)
    for rows, expected in (([good, other], "holds"), ([bad, other], "fails"), ([good, bad, other], "holds in part")):
        assert THEORY[name].decide(checks(rows)).verdict == expected
    with pytest.raises(Lacking):
        THEORY[name].decide(checks([other]))


@pytest.mark.parametrize("module", [capacity_check, exact_representation, selection_heads])
def test_what_is_violated_is_what_is_known_to_be_printed_with_an_error(module):
    rows = module.analyse(Results(pd.DataFrame(), scale="smoke"))["checks"]
    assert set(rows["claim"]) == {claim.id for claim in module.CLAIMS}
    violated = rows.loc[~rows["satisfied"], "check"]
    known = ("as printed", "as its proof", "as in the", "claimed 1", "gamma/8", "literal", "printed weights")
    assert all(any(word in name for word in known) or name.startswith("bump corrected: entries") for name in violated)
    assert len(violated) > 0


@pytest.mark.slow
def test_flipped_problems_are_the_same_problem():
    rows = bit_symmetry.analyse(Results(pd.DataFrame(), scale="smoke"))["checks"]
    assert rows.loc[~rows["satisfied"], "check"].tolist() == [
        "share of positive labels of OR at the bias of AND, off 1/2"
    ]
