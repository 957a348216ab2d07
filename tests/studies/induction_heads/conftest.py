"""What the tests of this study share."""

from collections.abc import Callable, Sequence

import pytest

import elegans as el
from elegans.experiments.results import Results, StoredResults


@pytest.fixture(scope="session")
def trained() -> Callable[[el.Sweep, Sequence[el.Probe]], Results]:
    """A function from a sweep and probes to the results of its trials, as an experiment's analysis receives them."""

    def results(sweep: el.Sweep, probes: Sequence[el.Probe]) -> Results:
        with el.Store() as store:
            el.run(sweep, store, probes=probes)
            found = StoredResults(store, sweep)
            return Results(found.trials, {probe.kind: found.measures[probe.kind] for probe in probes}, sweep)

    return results
