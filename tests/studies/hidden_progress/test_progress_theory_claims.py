"""The statements of theory of the hidden-progress study: their rules on made-up tables, and their checks at smoke."""

import pandas as pd
import pytest

from elegans.experiments.checks import check, checks
from elegans.experiments.claims import Lacking
from elegans.experiments.results import Results
from elegans.studies.hidden_progress import disjoint_lemmas, progress_lemmas

MODULES = (progress_lemmas, disjoint_lemmas)
THEORY = {claim.id: claim for module in MODULES for claim in module.CLAIMS}


@pytest.mark.parametrize("name", THEORY)
def test_a_statement_holds_in_part_where_only_its_printed_form_is_violated(name):
    good, bad, printed = check(name, "first", 0.5, 1), check(name, "second", 2, 1), check(name, "it, as printed", 2, 1)
    other = check("progress/another", "third", 2, 1)
    given = [([good], "holds"), ([good, printed], "holds in part"), ([bad, printed], "fails")]
    for rows, expected in given:
        assert THEORY[name].decide(checks([*rows, other])).verdict == expected
    with pytest.raises(Lacking):
        THEORY[name].decide(checks([other]))


@pytest.mark.parametrize("module", MODULES)
def test_only_printed_forms_are_violated_at_smoke_scale(module):
    rows = module.analyse(Results(pd.DataFrame(), scale="smoke"))["checks"]
    assert set(rows["claim"]) == {claim.id for claim in module.CLAIMS}
    misprints = rows["check"].str.endswith("as printed")
    assert rows.loc[~misprints, "satisfied"].all()
    assert not rows.loc[misprints, "satisfied"].any()
