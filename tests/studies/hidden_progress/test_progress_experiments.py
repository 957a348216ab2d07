"""The experiments of the hidden-progress study run by name, and their tables summarise the trials."""

import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from elegans.errors import ExperimentError
from elegans.experiments import EXPERIMENTS, run_experiment
from elegans.experiments.results import Results
from elegans.models import SeededInit
from elegans.studies.hidden_progress import training_curves_zoo
from elegans.studies.hidden_progress.convergence_scaling import findings as scaling_findings, fitted
from elegans.studies.hidden_progress.not_random_search import analyse as luck, findings as luck_findings
from elegans.studies.hidden_progress.robust_space import (
    CELL,
    LAPTOP,
    PAPER,
    findings as robust_findings,
    further,
    judged,
)
from elegans.studies.hidden_progress.settings import CONFIGURATIONS, configuration
from elegans.studies.hidden_progress.tables import identified, timed
from elegans.studies.hidden_progress.training_curves_zoo import FIGURES
from elegans.studies.hidden_progress.width import summarise as widths
from elegans.sweeps import Sweep
from elegans.training.engines import ENGINES

PROGRESS = (
    "training-curves-zoo",
    "convergence-scaling",
    "robust-space",
    "not-random-search",
    "width",
    "grokking",
    "noisy-parity",
    "variations",
)
needs_fused = pytest.mark.skipif(ENGINES["fused"].unavailable() is not None, reason="slow without the fused engine")


def rows(trial, times, **columns):
    """Return a table of trials as ``elegans.run`` makes it: a trial's parameters, and given times (NaN: unsolved)."""
    own = {**trial.columns(), **columns}
    states = ["solved" if np.isfinite(time) else "unsolved" for time in times]
    table = pd.DataFrame([own] * len(times))
    return table.assign(seed=range(len(times)), state=states, solved_at=np.asarray(times, float))


@pytest.mark.compiles
@pytest.mark.slow
@needs_fused
@pytest.mark.parametrize("name", PROGRESS)
def test_each_runs_by_name_and_writes_figure_table_and_record_with_findings(name, tmp_path):
    result = run_experiment(name, "smoke", out=tmp_path, seeds=2)
    assert all(path.stat().st_size > 0 for path in result.files.values())
    record = json.loads(result.files["record"].read_text())
    assert record["findings"] and record["failed"] == 0
    assert all(len(pd.read_csv(result.files[name])) == len(table) > 0 for name, table in result.tables.items())


@pytest.mark.parametrize("name", [name for name in PROGRESS if name != "robust-space"])
def test_each_has_laptop_and_paper_scales_that_are_larger(name):
    sizes = [len(EXPERIMENTS[name].scale(scale).cells(1)) for scale in ("smoke", "laptop", "paper")]
    assert 0 < sizes[0] < sizes[1] and sizes[0] < sizes[2]


def test_configurations_are_offered_by_the_study():
    from elegans.studies import hidden_progress

    assert hidden_progress.configuration("xv", 30, 3) == configuration("xv", 30, 3)
    assert hidden_progress.CONFIGURATIONS is CONFIGURATIONS


def test_a_model_is_known_by_its_configuration():
    tables = [rows(configuration(name, 10, 3), [10.0]) for name in CONFIGURATIONS]
    found = identified(pd.concat(tables, ignore_index=True))
    assert list(found["configuration"]) == list(CONFIGURATIONS)
    assert found["network"].iloc[0] == "(i) ReLU network of width 10"
    with pytest.raises(ExperimentError, match="one of the thesis' configurations: model='mlp'"):
        identified(rows(configuration("i", 10, 3).replace("model.width", 11), [10.0]))


def test_times_of_a_group_count_unsolved_trials_as_infinite_and_failed_ones_not_at_all():
    table = rows(configuration("i", 10, 3), [10.0, 20.0, 30.0, math.nan, math.nan, 40.0])
    table.loc[4, "state"] = "failed"
    (found,) = timed(table, ["task.n"]).to_dict("records")
    assert (found["trials"], found["solved"], found["failed"]) == (5, 4, 1)
    assert (found["median_steps"], found["tenth"]) == (30, 14)
    assert found["low"] < 0.8 < found["high"] and found["median_low"] >= 10 and found["median_high"] == math.inf


def lines(exponent, sizes=(10, 20, 40, 80), bend=0.0, k=3):
    """Return trials of a power law that is steeper by ``bend`` beyond n = 40."""
    tables = []
    for n in sizes:
        time = n**exponent * max(1, n / 40) ** bend
        tables.append(rows(configuration("ii", n, k), time * np.array([0.9, 1.0, 1.1])))
    return pd.concat(tables, ignore_index=True)


def test_exponents_and_elbows_of_lines_are_found():
    found = fitted(identified(pd.concat([lines(1.5, bend=1.0), lines(1.0, k=2)], ignore_index=True)))
    straight, bent = (found[found["task.k"] == k] for k in (2, 3))
    assert straight["exponent"].iloc[0] == pytest.approx(1) and straight["elbow"].iloc[0] == pytest.approx(0)
    assert bent["lower_exponent"].iloc[0] == pytest.approx(1.5) and bent["elbow"].iloc[0] == pytest.approx(1)
    assert list(bent["local_exponent"])[1:] == pytest.approx([1.5, 1.5, 2.5])
    stated = scaling_findings({"table": found})["ii"]
    assert stated["below_k"] and stated["grows_with_k"]
    assert stated["k = 3"]["elbow_interval"][0] > 0


def test_a_line_ends_where_at_most_half_of_its_trials_are_solved():
    table = lines(1.5)
    table.loc[(table["task.n"] == 80) & (table["seed"] > 0), ["state", "solved_at"]] = ["unsolved", math.nan]
    found = fitted(identified(table))
    assert found["median_steps"].isna().tolist() == [False, False, False, True]
    assert found["exponent"].iloc[0] == pytest.approx(1.5)


def test_the_robust_grid_is_the_reduced_one():
    sweep = LAPTOP.sweep(5)
    assert len(sweep) == 16_200 and len({cell.cell for cell in sweep.cells}) == 16_200 // 5
    assert {cell.training.steps for cell in sweep.cells} == {20_000}
    corner = replace(PAPER, sizes=(10,), degrees=(2,), batches=PAPER.batches[:1])
    assert len(corner.sweep(25)) * 3 * 3 * 11 == 1_336_500  # n, k and batch sizes are left out of the corner


def cell(n, rate, times, **settings):
    return rows(configuration("xv", n, 2, learning_rate=rate, **settings), times)


def robust(trials):
    return judged(timed(identified(trials), (*CELL, "training.learning_rate")))


def test_a_cell_holds_where_one_learning_rate_solves_a_fifth():
    unsolved = [math.nan] * 4
    tables = [
        cell(10, 0.1, [100.0, *unsolved]),
        cell(10, 0.01, [math.nan, *unsolved]),
        cell(20, 0.1, [math.nan, *unsolved]),
        cell(20, 0.01, [math.nan, *unsolved]),
    ]
    found = robust(pd.concat(tables, ignore_index=True))
    assert found.groupby("task.n")["holds"].all().to_dict() == {10: True, 20: False}
    assert found[found["best"]].set_index("task.n")["training.learning_rate"][10] == 0.1
    stated = robust_findings({"table": found})
    assert (stated["cells"], stated["hold"]) == (2, 1)
    assert stated["failing"] == ["(xv) n=20 k=2 B=32 dense hinge: 0 of 5"]


def test_a_cell_that_does_not_hold_has_other_learning_rates_and_then_fresh_trials():
    one = configuration("xv", 10, 2, learning_rate=0.1)
    tried = [(one.replace("training.learning_rate", rate), [math.nan] * 5) for rate in (0.1, 0.01, 0.001)]
    (more,) = further(results(*tried).sweep, results(*tried), 5).parts
    assert more[0].training.learning_rate == 1.0 and list(more[1]) == [0, 1, 2, 3, 4]
    tried.append((more[0], [math.nan] * 5))
    (fresh,) = further(results(*tried).sweep, results(*tried), 5).parts
    assert list(fresh[1]) == list(range(5, 25))
    solved = [*tried[:-1], (more[0], [100.0, *[math.nan] * 4])]
    assert not further(results(*solved).sweep, results(*solved), 5).parts


def test_the_barely_sufficient_networks_are_an_option():
    starred = EXPERIMENTS["robust-space"].with_options({"networks": "starred"})
    assert {one.model.width for one in starred.scale("smoke").cells(1)} == {2}
    with pytest.raises(ExperimentError, match="networks='both'"):
        EXPERIMENTS["robust-space"].with_options({"networks": "both"})


def test_the_coarse_exponent_is_that_of_the_best_rates():
    """t(10) = 100 at rate 0.1, t(20) = 1100 at rate 0.01: alpha = log 11 / log 11."""
    tables = [cell(10, 0.1, [100.0] * 3), cell(10, 0.01, [200.0] * 3), cell(20, 0.1, [5000.0] * 3)]
    found = robust(pd.concat([*tables, cell(20, 0.01, [1100.0] * 3)], ignore_index=True))
    assert found["alpha"].to_numpy() == pytest.approx(1)
    assert robust_findings({"table": found})["alpha"] == {"xv": {"k = 2, B = 32": 1.0}}


def test_a_histogram_holds_every_solved_trial_and_the_geometric_law():
    times = np.random.default_rng(0).integers(5, 60, size=500) * 10.0
    found = luck(results((configuration("xv", 8, 3), times), *commons()))
    assert (
        found["times"]["trials"].sum() == 500
        and (np.repeat(*found["times"][["steps", "trials"]].to_numpy(int).T) == np.sort(times)).all()
    )
    bins = found["histograms"]
    assert bins["count"].sum() == 500
    for _, one in bins.iterrows():
        assert one["count"] == ((times > one["above"]) & (times <= one["until"])).sum()
    first, last = bins.iloc[0], bins.iloc[-1]
    assert first["random_search"] == pytest.approx(500 * (1 - (1 - 1 / 56) ** first["until"]))
    assert bins["memoryless"].sum() == pytest.approx(500 * (1 - 0.5 ** (last["until"] / np.median(times))))
    stated = luck_findings(found)["luck"]["xv (8, 3)"]
    assert stated["fastest"] == times.min() and stated["fastest_over_median"] == pytest.approx(
        times.min() / np.median(times), abs=1e-4
    )
    expected = 500 * (1 - 0.5 ** ((times.min() - 10) / np.median(times)))
    assert stated["expected_before_fastest"]["memoryless"] == pytest.approx(expected, abs=0.06)


def results(*cells):
    """Return the results of cells that have given times."""
    table = pd.concat([rows(one, times) for one, times in cells], ignore_index=True)
    return Results(table, sweep=Sweep(tuple((one, range(len(times))) for one, times in cells)))


def commons():
    """Return cells whose time is the square of the number of their initial values, but for a factor e^(+-0.1)."""
    base = configuration("xiv", 8, 3).replace("task.support", (0, 1, 2))
    return [
        (base.replace("model.init", SeededInit(seed=seed)), (seed + 2) ** 2 * 100.0 * np.exp([-0.1, 0.1]))
        for seed in range(4)
    ]


def test_variances_between_and_within_initial_values_are_those_of_the_logarithm():
    stated = luck_findings(luck(results((configuration("xv", 8, 3), [50.0, 70.0]), *commons())))["inits"]["xiv (8, 3)"]
    between = np.var(2 * np.log([2, 3, 4, 5]), ddof=1)
    assert (stated["inits"], stated["trials"], stated["solved"]) == (4, 8, 8)
    assert stated["within"] == pytest.approx(0.02)
    assert stated["between_inits"] == pytest.approx(between - 0.01, abs=1e-4)
    assert stated["interval"][0] < stated["ratio"] < stated["interval"][1]


def test_common_initial_values_meet_other_data_and_one_support():
    sweep = EXPERIMENTS["not-random-search"].scales["smoke"].cells(1)
    seeded = [one for one in sweep if one.model.init.kind == "seeded"]
    assert {one.task.support for one in seeded} == {(0, 1, 2)}
    same = [one for one in seeded if one.cell == seeded[0].cell]
    assert len(same) == 3 and len({one.key("sample") for one in same}) == 3
    first = [one.model.initialise(one.key("init"), one.task)["hidden"]["weight"] for one in same]
    np.testing.assert_array_equal(first[0], first[1])


def test_a_box_of_times_has_its_quartiles_whiskers_and_the_time_of_random_searches():
    base = configuration("ii", 10, 3).replace("model.width", 4)
    times = [100.0, 110.0, 120.0, 130.0, 140.0, 500.0, math.nan, 90.0]
    (found,) = widths(rows(base, times)).to_dict("records")
    assert (found["lower"], found["median_steps"], found["upper"]) == (107.5, 125.0, 230.0)
    assert (found["whisker_low"], found["whisker_high"]) == (90.0, 140.0)
    assert (found["fastest"], found["slowest"]) == (90.0, math.inf)
    assert found["random_search"] == pytest.approx(1 / (1 - (1 - 1 / 120) ** 4))


def test_a_box_of_times_has_no_upper_end_where_few_trials_are_solved():
    base = configuration("ii", 10, 3).replace("model.width", 4)
    (found,) = widths(rows(base, [100.0, math.nan, math.nan, math.nan, math.nan])).to_dict("records")
    assert (found["whisker_low"], found["fastest"]) == (100.0, 100.0)
    assert math.isinf(found["lower"]) and math.isinf(found["upper"]) and math.isinf(found["whisker_high"])


def test_networks_narrower_than_the_parity_need_only_learn_weakly():
    for one in EXPERIMENTS["width"].scales["laptop"].cells(1):
        weak = one.stopping.error == 0.45 and one.stopping.consecutive == 10
        assert weak == (one.model.width < 3) and one.stopping.examples == 8192


def test_only_some_trials_of_settings_that_no_figure_draws_keep_their_curves():
    points = [
        (figure, "a network", seed, step)
        for figure in (training_curves_zoo.DRAWN, "figure B.2")
        for seed in range(50, 62)
        for step in (10, 20, 30)
    ]
    table = pd.DataFrame(points, columns=["figure", "panel", "seed", "step"]).assign(configuration="i")
    assert len(training_curves_zoo._thinned(table.assign(configuration="*iii"))) == len(table)
    kept = training_curves_zoo._thinned(table).groupby(["figure", "seed"])["step"].agg(list)
    whole = [10, 20, 30]
    assert list(kept[training_curves_zoo.DRAWN]) == [whole] * 12
    assert list(kept["figure B.2"]) == [whole] * training_curves_zoo.CURVES + [[30]] * 2


def test_the_zoo_has_the_settings_of_both_figures():
    assert {name: len(panels) for name, panels in FIGURES.items()} == {"figure 5.1": 8, "figure B.2": 24}
    (sinusoid,) = (panel.trial.model.activation for panel in FIGURES["figure 5.1"] if panel.identifier == "x")
    assert float(sinusoid.value(np.array(0.3))) == pytest.approx(-math.sin(2 * 0.3))  # shifted by -pi for k = 3
    cells = [panel.trial.cell for panels in FIGURES.values() for panel in panels]
    assert len(set(cells)) == 32
