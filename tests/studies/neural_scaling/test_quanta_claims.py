"""The rules that decide the claims on many parities, on made-up tables, and the experiments at their smallest scale."""

import numpy as np
import pandas as pd
import pytest

from elegans import theory
from elegans.experiments import run_experiment
from elegans.experiments.claims import InsufficientData
from elegans.studies.neural_scaling import quanta_discovery, scaling_laws, subtask_curves

CURVES = {claim.id: claim.decide for claim in subtask_curves.EXPERIMENT.claims}
LAWS = {claim.id: claim.decide for claim in scaling_laws.EXPERIMENT.claims}
(DISCOVERED,) = (claim.decide for claim in quanta_discovery.EXPERIMENT.claims)


def curves(decades=0.5, noise=(0.0,), networks=6, tasks=100):
    """Networks that learn subtask i at 500 i^1.4, within some decades of steps around it."""
    steps, rank = np.geomspace(100, 40_000, 40), np.arange(1, tasks + 1)
    subtasks, means = [], []
    for seed in range(networks):
        normal = np.random.default_rng(0).normal(size=tasks)
        learned = 500 * rank**1.4 * np.exp(noise[seed % len(noise)] * normal)
        learned = np.where(learned < steps[-1], learned, np.nan)
        spread = 10 ** (decades / 2)
        own = pd.DataFrame({"rank": rank, "begun": learned / spread, "learned": learned, "done": learned * spread})
        subtasks.append(own.assign(seed=seed))
        loss = np.minimum(0.99, (steps / 400) ** -0.4)
        means.append(pd.DataFrame({"seed": seed, "step": steps, "loss": loss, "learned": 0}))
    setting = pd.DataFrame([{"tasks": tasks, "alpha": 0.4}])
    return {"subtasks": pd.concat(subtasks), "means": pd.concat(means), "setting": setting}


@pytest.mark.parametrize(
    ("noise", "verdict"),
    [((0.0,), "holds"), ((0.8,), "holds in part"), ((10.0,), "fails"), ((0.0, 0.8), "undecided")],
)
def test_subtasks_come_in_the_order_of_their_frequencies_or_not(noise, verdict):
    assert CURVES["quanta/frequent-first"](curves(noise=noise)).verdict == verdict


@pytest.mark.parametrize(("decades", "verdict"), [(0.5, "holds"), (0.8, "holds in part"), (1.5, "holds in part")])
def test_subtasks_are_sudden_or_not(decades, verdict):
    found = CURVES["quanta/sudden-and-smooth"](curves(decades))
    assert found.verdict == verdict
    assert (found.numbers["subtasks sudden"]["verdict"] == "fails") == (decades == 1.5)


def test_a_mean_with_a_step_is_not_smooth():
    tables = curves(1.5)
    tables["means"]["loss"] = np.where(tables["means"]["step"] < 20_000, 0.75, 0.02)
    assert CURVES["quanta/sudden-and-smooth"](tables).verdict == "fails"


@pytest.mark.parametrize("change", [{"networks": 5}, {"tasks": 50}])
@pytest.mark.parametrize("name", CURVES)
def test_few_networks_or_subtasks_decide_nothing(name, change):
    with pytest.raises(InsufficientData):
        CURVES[name](curves(**change))


def test_the_laws_of_made_up_curves_are_theirs():
    found = subtask_curves.laws(curves())
    assert found["first"] == pytest.approx(500)
    assert found["times"].exponent == pytest.approx(1)
    assert found["mean"].exponent == pytest.approx(-0.4)
    assert found["prefix"] == int((40_000 / 500) ** (1 / 1.4))
    told = subtask_curves.findings(curves())
    assert told["theory"]["learned"] == told["learned"]["median"] == found["prefix"]


def points(arm, exponent=None, networks=4, tasks=100):
    """Losses that are theory's for the finite list, or a power."""
    sizes = {"width": [16, 32, 64, 128, 256], "samples": [2e4, 4e4, 1e5, 2e5, 4e5], "steps": [2e3, 4e3, 1e4, 2e4, 4e4]}
    at = np.array(sizes[arm])
    predict, _ = scaling_laws.theory_of(arm, tasks, 0.4)
    constant = {"width": 10, "samples": 3000, "steps": 500}[arm]
    loss = predict(at, constant) if exponent is None else 0.5 * (at / at[0]) ** exponent
    rows = [
        {"arm": arm, "size": size, "seed": seed, "loss": value * (1 + 0.01 * (-1) ** seed), "learned": place + 1}
        for place, (size, value) in enumerate(zip(at, loss, strict=True))
        for seed in range(networks)
    ]
    return {"points": pd.DataFrame(rows), "setting": pd.DataFrame([{"tasks": tasks, "alpha": 0.4}])}


ARM = {"quanta/width-exponent": "width", "quanta/sample-exponent": "samples", "quanta/step-exponent": "steps"}


@pytest.mark.parametrize("name", LAWS)
def test_an_exponent_holds_over_all_sizes_and_each_half_or_not(name):
    arm = ARM[name]
    listed = LAWS[name](points(arm))
    assert listed.numbers["the finite list"]["verdict"] == "holds"
    assert listed.numbers["infinitely many subtasks"]["verdict"] == "fails"
    assert listed.verdict == "undecided"
    asymptotic = scaling_laws.theory_of(arm, 100, 0.4)[1]
    assert LAWS[name](points(arm, asymptotic)).verdict == "holds"
    bent = points(arm, asymptotic)
    place = np.log(bent["points"]["size"] / bent["points"]["size"].median())
    bent["points"]["loss"] *= np.exp(-0.1 * place**2)
    bent = LAWS[name](bent)
    assert bent.numbers["infinitely many subtasks"]["verdict"] == "holds"
    assert bent.verdict == "undecided"
    assert LAWS[name](points(arm, -0.02)).verdict == "fails"


@pytest.mark.parametrize("change", [{"networks": 3}, {"tasks": 50}])
def test_few_networks_or_subtasks_decide_no_exponent(change):
    with pytest.raises(InsufficientData):
        LAWS["quanta/step-exponent"](points("steps", **change))


def test_a_noisy_exponent_is_undecided():
    tables = points("steps", -0.2857)
    generator = np.random.default_rng(0)
    tables["points"]["loss"] *= np.exp(0.4 * generator.normal(size=len(tables["points"])))
    assert LAWS["quanta/step-exponent"](tables).verdict == "undecided"


def test_the_power_along_the_steps_of_one_network_has_the_spread_of_networks():
    """Networks whose own exponents are 0.1 apart: an interval that took sizes as independent would be far narrower."""
    tables = points("steps", -0.2857, networks=6)
    rows = tables["points"]
    first = rows.groupby("seed")["size"].transform("min")
    rows["loss"] *= (rows["size"] / first) ** (0.05 * (-1.0) ** rows["seed"])
    law = scaling_laws.laws(tables)["steps"].fitted
    assert law.low < -0.34 and law.high > -0.24 and law.exponent == pytest.approx(-0.2857, abs=0.01)


def test_the_fitted_constant_is_that_of_the_losses():
    for arm, constant in (("width", 10), ("samples", 3000), ("steps", 500)):
        assert scaling_laws.laws(points(arm))[arm].constant == pytest.approx(constant, rel=0.03)
    assert theory.quanta_exponents(0.4).width == -scaling_laws.laws(points("width"))["width"].asymptotic


def clusters(angular, inputs=0.0, networks=6, tasks=100):
    rows = pd.DataFrame({"seed": range(networks), "step": 40_000, "tasks": tasks})
    return {"table": rows.assign(angular=angular, inputs=inputs)}


@pytest.mark.parametrize(
    ("tables", "subtasks", "inputs"),
    [
        (clusters(0.7), "holds", "holds"),
        (clusters(0.3), "fails", "holds"),
        (clusters(0.0, inputs=0.2), "fails", "fails"),
        (clusters([0.1, 0.9] * 3, inputs=0.5), "undecided", "undecided"),
    ],
)
def test_clusters_are_the_subtasks_or_not_which_decides_nothing_about_language_models(tables, subtasks, inputs):
    found = DISCOVERED(tables)
    assert found.verdict == "undecided"
    parts = ("the subtasks", subtasks), ("more than inputs", inputs)
    assert all(found.numbers[name]["verdict"] == verdict for name, verdict in parts)


@pytest.mark.parametrize("change", [{"networks": 5}, {"tasks": 50}])
def test_few_networks_or_subtasks_decide_no_clusters(change):
    with pytest.raises(InsufficientData):
        DISCOVERED(clusters(0.7, **change))


@pytest.mark.slow
@pytest.mark.compiles
@pytest.mark.parametrize("name", ["subtask-curves", "scaling-laws", "quanta-discovery"])
def test_experiments_run_at_their_smallest_scale_and_leave_claims_undecided(name, tmp_path):
    result = run_experiment(name, "smoke", out=tmp_path)
    assert result.failed == 0
    assert {one["verdict"] for one in result.record["verdicts"].values()} == {"undecided"}
    assert set(result.record["engines"]) == {"fused"}
    assert all(len(rows) for rows in result.tables.values())
