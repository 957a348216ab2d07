"""Plans: what a run will cost, from short trainings of each shape of its cells."""

import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest

import elegans as el
from elegans.errors import ExperimentError
from elegans.experiments import EXPERIMENTS, cost, plan
from elegans.experiments.cost import Cost, _nearest, _shape, cost_of
from elegans.experiments.registry import find
from elegans.probes import WeightMovement
from elegans.sweeps import grid
from elegans.training import AdaDelta, Trial, cost as training_cost
from elegans.training.engines import choose

TRIAL = Trial.parse(
    {
        "task": {"kind": "sparse-parity", "n": 20, "k": 2},
        "regime": "online",
        "model": {"kind": "mlp", "width": 20},
        "training": {
            "kind": "sgd",
            "steps": 1000,
            "learning_rate": 0.1,
            "stopping": {"kind": "stopping-rule", "every": 100},
        },
    }
)


def test_a_plan_counts_the_trials_and_steps_of_the_sweep():
    sweep = EXPERIMENTS["hidden-progress"].scale("smoke").cells(2)
    found = plan("hidden-progress", "smoke", seeds=2, budget=0.1)
    assert (found.cells, found.trials) == (len(sweep.cells), len(sweep))
    assert found.steps == sum(trial.steps for trial in sweep)
    assert found.seconds > 0
    assert 1 <= found.measured <= found.shapes <= found.cells


def test_a_plan_of_what_only_computes_or_follows_says_so():
    assert plan("lottery-tickets", "smoke", budget=0.1).follow
    assert not plan("hidden-progress", "smoke", budget=0.1).follow


def test_a_traced_frontier_is_planned_with_fewer_trials_than_its_grid():
    whole, traced = (plan("success-frontier", "smoke", seeds=20, adaptive=way, budget=0.1) for way in (False, True))
    assert traced.trials < whole.trials
    assert traced.traced


def kept(scale, training_seconds, seeds=None):
    record = {"scale": scale, "trials": 100, "training_seconds": training_seconds, "arguments": {"seeds": seeds}}
    return SimpleNamespace(experiment="hidden-progress", scale=scale, content={"record": record, "options": {}})


def test_a_plan_expects_the_share_of_steps_that_the_kept_run_took(monkeypatch):
    """The share is of the kept run's maximum. Measuring is replaced by a fixed cost, so the shares are exact."""
    monkeypatch.setattr(
        cost, "cost_of", lambda cell, seeds, probes, budget, workers: Cost(1e-3, 0.0, (0.0,) * len(probes))
    )
    found = {}
    for name, pieces in {
        "none": [],
        "same": [kept("smoke", 1e-2)],
        "whole": [kept("smoke", 1e6)],
        "other": [kept("laptop", 1e-2)],
        "more": [kept("smoke", 1e-2, seeds=1)],
    }.items():
        monkeypatch.setattr(cost, "collected", lambda pieces=pieces: pieces)
        found[name] = plan("hidden-progress", "smoke", seeds=2)
    assert found["none"].expected is None
    assert found["whole"].expected == found["whole"].seconds  # never above the maximum
    most = {}
    for name, scale, seeds in [("same", "smoke", None), ("other", "laptop", None), ("more", "smoke", 1)]:
        size = find("hidden-progress").scale(scale)
        most[name] = sum(len(part) * cell.steps * 1e-3 for cell, part in size.cells(seeds or size.trials).parts)
        assert found[name].expected / found[name].seconds == pytest.approx(1e-2 / most[name])
    assert most["other"] > most["same"] > most["more"]


def test_wrong_amounts_are_refused_before_anything_is_measured():
    with pytest.raises(ExperimentError, match="seeds must be at least 1: seeds=0"):
        plan("hidden-progress", "smoke", seeds=0)
    with pytest.raises(ExperimentError, match="workers must be at least 1: workers=0"):
        plan("hidden-progress", "smoke", workers=0)


def test_a_trial_costs_its_steps_its_checks_and_its_measurements():
    cost = Cost(step=0.001, check=0.01, probes=(0.1,))
    # 1000 steps, 11 checks, 3 measurements (at 0, 500 and 1000)
    assert cost.of(TRIAL, [WeightMovement(every=500)]) == pytest.approx(1 + 0.11 + 0.3)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["fused", "jax"])
def test_measured_costs_are_those_of_steps_that_were_taken(engine):
    trial = TRIAL if engine == "fused" else TRIAL.replace("training", AdaDelta(steps=1000, stopping=TRIAL.stopping))
    assert choose(trial).name == engine
    cost = cost_of(trial, range(2), [WeightMovement(every=500)], 0.2)
    assert cost.step > 0
    assert cost.check >= 0
    assert len(cost.probes) == 1


def test_as_many_trainings_are_timed_at_once_as_a_run_has_workers(monkeypatch):
    """JAX uses all cores for one training: timed alone, it would seem to be as many times faster as there are cores."""
    together = threading.Barrier(3, timeout=60)

    def train(trials, engine, **_):
        together.wait()
        yield el.Outcome(trials[0], "unsolved", steps=trials[0].steps, seconds=3.0, engine=engine.name)

    monkeypatch.setattr(training_cost, "train_together", train)
    assert cost_of(TRIAL, range(1), [], 0.1, workers=3).step == pytest.approx(3 / TRIAL.steps)


def test_a_layerwise_training_of_a_large_sample_is_timed_on_a_smaller_one_whose_passes_are_scaled(monkeypatch):
    def train(trials, engine, **_):
        sizes.append(trials[0].regime.size)
        yield el.Outcome(trials[0], "unsolved", steps=trials[0].steps, seconds=3.0, engine=engine.name)

    sizes: list[int] = []
    monkeypatch.setattr(training_cost, "train_together", train)
    cells = find("theorem-5.5").scale("paper").cells(1).cells
    cell = next(cell for cell in cells if cell.columns().get("regime.size", 0) == 10**8)
    size = training_cost.LARGEST_PASS // cell.task.input_size
    cost = cost_of(cell, range(1), [], 0.1)
    assert set(sizes) == {size} and cost.passes == pytest.approx(3 * 10**8 / size)
    assert replace(cost, step=1e-3, check=0.0).of(cell, []) == pytest.approx(cost.passes + 1e-3 * (cell.steps - 2))


def test_cells_that_differ_in_rates_seeds_or_a_little_in_sample_size_have_one_shape():
    same = grid(TRIAL, {"training.learning_rate": [0.1, 0.2], "regime": ["sample:900", "sample:1100"]}).cells
    assert len({_shape(cell, ()) for cell in same}) == 1
    other = grid(TRIAL, {"model.width": [10, 20], "regime": ["online", "sample:100", "sample:1000"]}).cells
    assert len({_shape(cell, ()) for cell in other}) == 6


@pytest.mark.slow
def test_each_set_of_probes_is_measured_however_small_the_budget():
    """Networks of `biased-parity` have probes of their own besides those of all trials."""
    found = plan("biased-parity", "smoke", seeds=1, budget=1e-6)
    assert 1 < found.measured < found.shapes


def test_a_shape_that_was_not_measured_costs_what_the_nearest_one_does():
    shapes = [_shape(cell, ()) for cell in grid(TRIAL, {"model.width": [10, 30, 1000, 3000]}).cells]
    assert _nearest(shapes, [shapes[0], shapes[3]]) == [shapes[0], shapes[0], shapes[3], shapes[3]]
    assert _nearest(shapes[:1], shapes[:1]) == shapes[:1]
