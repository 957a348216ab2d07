"""What transformers on Markov chains attend to: figures, masses, and which layer is there first."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from elegans import theory
from elegans.errors import ExperimentError
from elegans.experiments import find, run_experiment
from elegans.studies.induction_heads.attention_pictures import order, probes
from elegans.studies.induction_heads.heads import EXAMPLES, TRANSPLANTS, transplants
from elegans.studies.induction_heads.settings import transformer


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    return run_experiment("attention-pictures", "smoke", out=tmp_path_factory.mktemp("results"))


@pytest.mark.slow
@pytest.mark.compiles
def test_a_run_writes_its_animation_and_its_page_beside_the_figure(smoke):
    names = {"figure.png", "figure.pdf", "curves.csv", "heads.csv", "maps.csv", "record.json"}
    names |= {"attention.gif", "attention.html", "attention.svg"}
    assert {path.name for path in smoke.files.values()} == names
    assert all(0 < path.stat().st_size < 2_000_000 for path in smoke.files.values())
    for name, table in smoke.tables.items():
        assert len(pd.read_csv(smoke.files[name])) == len(table) == (1 if name == "heads" else 5)


@pytest.mark.compiles
@pytest.mark.slow
def test_the_page_shows_the_tables_maps(smoke):
    text = smoke.files["attention.html"].read_text()
    (network,) = json.loads(text.split('id="data">')[1].split("</script>")[0])["networks"]
    assert (network["name"], network["steps"]) == ("k = 2", [0, 10, 20, 30, 40])
    assert network["letters"] == list("bbabbbaabbabbbba")
    for layer, found in enumerate(network["layers"], 1):
        assert np.allclose(np.array(found)[:, 0], smoke.tables["maps"][f"layer{layer}"].to_list(), atol=0.006)


@pytest.mark.compiles
@pytest.mark.slow
def test_the_record_says_what_was_found(smoke):
    found = json.loads(smoke.files["record"].read_text())["findings"]["k = 2"]
    assert found["trials"] == 1
    assert found["previous"]["uniform"] == pytest.approx(np.mean(1 / np.arange(2, 17)), rel=1e-3)
    assert {"order_of_masses", "order_of_transplants_alone", "order_of_transplants_with_ends"} <= set(found)
    assert set(found["transplants"]) == set(TRANSPLANTS)


@pytest.mark.compiles
@pytest.mark.slow
def test_attention_is_uniform_before_training(smoke):
    first = smoke.tables["curves"].iloc[0]
    assert first["previous"] == pytest.approx(first["uniform_previous"], rel=0.01)
    assert first["induction"] == pytest.approx(first["uniform_induction"], rel=0.01)


@pytest.mark.compiles
@pytest.mark.slow
def test_transplants_of_the_final_step_are_the_network_itself(smoke):
    last = smoke.tables["curves"].iloc[-1]
    assert all(last[name] == pytest.approx(last["intact"], rel=1e-5) for name in TRANSPLANTS)
    assert len({round(smoke.tables["curves"][name].iloc[0], 5) for name in TRANSPLANTS}) == len(TRANSPLANTS)


def with_extras(result, extras, folder):
    """Return a result of an experiment with other extras and an empty figure, to be written elsewhere."""
    experiment = replace(result.experiment, extras=extras, plot=lambda tables: Figure())
    return replace(result, experiment=experiment, folder=folder)


@pytest.mark.compiles
@pytest.mark.slow
def test_extras_are_written_with_the_other_files_and_listed_by_the_command(smoke, tmp_path, capsys):
    def rows(tables, path):
        path.write_text(f"{len(tables['curves'])} rows")

    result = with_extras(smoke, {"note.txt": rows}, tmp_path).write()
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in result.files.values()}
    assert result.files["note.txt"].read_text() == "5 rows"

    from elegans.cli.commands.experiments import say_where

    say_where(result)
    assert "note.txt" in capsys.readouterr().out.replace("\n", "")


@pytest.mark.compiles
@pytest.mark.slow
def test_an_extra_that_cannot_be_written_is_an_error_of_one_line(smoke, tmp_path):
    def fails(tables, path):
        path.mkdir()
        path.write_text("")

    with pytest.raises(ExperimentError, match="results must be writable"):
        with_extras(smoke, {"note": fails}, tmp_path).write()


def test_a_transplant_is_as_good_as_the_layer_that_was_missing():
    """The construction of bigrams, whose first layer (or second) was not there at the first step."""
    one = transformer(2, 24, form="plain", width=6)
    whole = theory.attention_parameters(theory.bigram_construction(2, 24, slope=2.5))
    flat = {f"{layer}.{name}": array for layer, arrays in whole.items() for name, array in arrays.items()}
    for missing, there in (("layer1", "layer2"), ("layer2", "layer1")):
        then = {name: array * (not name.startswith(missing)) for name, array in flat.items()}
        taken = pd.DataFrame({name: [then[name], array, array] for name, array in flat.items()})
        start, end = transplants(one, taken.assign(trial=0, seed=0, step=[0, 10, 20])).to_dict("records")
        bad, good = start["intact"], end["intact"]
        assert (start["step"], end["step"]) == (0, 20)
        assert bad > 1.5 * good
        assert start[f"{there}_alone"] == pytest.approx(good) and start[f"{there}_with_ends"] == pytest.approx(good)
        assert start[f"{missing}_alone"] == pytest.approx(bad) and start[f"{missing}_with_ends"] == pytest.approx(bad)


@pytest.mark.compiles
@pytest.mark.slow
def test_the_loss_of_an_intact_network_is_that_of_the_probe(smoke):
    """On the first 128 of the probe's 1000 sequences: the standard error is about 0.02, the seed is fixed."""
    evaluated = smoke.tables["curves"].dropna(subset="intact")
    assert EXAMPLES == 128 and len(evaluated) == 3
    assert (evaluated["intact"] - evaluated["loss"]).abs().max() < 0.05


def test_order_counts_which_layer_leads_and_tests_by_signs():
    nan = np.nan
    found = order([10, 10, 10, 30, nan, nan], [20, 20, nan, 20, 20, nan])
    assert (found["first_layer"], found["second_layer"], found["ties"]) == (3, 2, 1)
    assert found["p"] == 1.0
    assert found["lead"]["reached"] == "3 of 3" and found["lead"]["range"] == [-10, 10]
    assert order([1] * 9 + [3], [2] * 10)["p"] == pytest.approx(0.02148, rel=1e-3)  # 2 (1 + 10) / 2^10
    assert order([nan], [nan]) == {"first_layer": 0, "second_layer": 0, "ties": 1, "p": 1.0, "lead": None}


def test_paper_scale_has_the_thesis_rate_and_networks_are_measured_a_hundred_times():
    for cell in find("attention-pictures").scales["paper"].cells(1).cells:
        assert cell.training.learning_rate == 3e-5
        assert {probe.every for probe in probes(cell)} == {cell.steps // 100}
