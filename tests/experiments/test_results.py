"""What an analysis receives of a sweep of which not all trials have run."""

import elegans as el
from elegans.experiments.results import stored
from elegans.sweeps import Sweep


def test_the_rows_of_trials_belong_to_the_trials_that_ran():
    one = el.Trial(
        task=el.SparseParity(n=4, k=2),
        regime="online",
        model=el.MLP(width=2),
        training=el.SGD(steps=2, batch_size=2, stopping={"examples": 10, "every": 1}),
    )
    whole = el.grid(one, {"model.width": [2, 3]}, seeds=3)
    narrow, wide = whole.cells
    with el.Store() as store:
        el.run(Sweep(((narrow, (2,)), (wide, (0, 2)))), store)
        results = stored(store, whole)
    described = [results.trial(place) for place in results.trials.index]
    assert [(trial.model.width, trial.seed) for trial in described] == [(2, 2), (3, 0), (3, 2)]
    assert list(results.trials["model.width"]) == [2, 3, 3] and list(results.trials["seed"]) == [2, 0, 2]
    assert results.sweep == whole
