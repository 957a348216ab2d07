import itertools
import re
import sqlite3
import tracemalloc
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import tomli_w
from hypothesis import given, strategies as st
from laboratory import TRIAL

import elegans as el
from elegans.errors import ArgumentError, SweepError, TrialError
from elegans.sweeps import EXAMPLE_TOML, sweep as sweep_module

SEEDS = st.one_of(st.integers(1, 5), st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=5))


def test_a_grid_is_the_product_of_its_axes_with_the_last_one_fastest_and_seeds_inside():
    sweep = el.grid(TRIAL, {"model.width": [10, 20], "regime.size": [1, 2, 3]}, seeds=2)
    found = [(trial.model.width, trial.regime.size, trial.seed) for trial in sweep]
    assert found == list(itertools.product([10, 20], [1, 2, 3], [0, 1]))
    assert len(sweep) == 12 and len(sweep.cells) == 6 and sweep.seeds == (0, 1)


@pytest.mark.parametrize(
    ("path", "values", "components"),
    [
        ("regime", ["online", "sample:100"], [el.Online(), el.Sample(100)]),
        ("regime", [{"kind": "online"}], [el.Online()]),
        ("model.init", ["sparse:3", el.DenseInit()], [el.SparseInit(3), el.DenseInit()]),
        ("model.width", np.array([1, 2]), [1, 2]),
        ("model.width", range(1, 3), [1, 2]),
    ],
)
def test_axes_take_values_in_every_form_that_the_field_takes(path, values, components):
    assert el.grid(TRIAL, {path: values}) == el.grid(TRIAL, {path: components})


def test_only_a_whole_combination_has_to_obey_the_rules():
    sweep = el.grid(TRIAL, {"task.n": [1, 2], "task.k": [1]})
    assert [(cell.task.n, cell.task.k) for cell in sweep.cells] == [(1, 1), (2, 1)]


def test_a_component_and_its_field_can_both_be_axes():
    sweep = el.grid(TRIAL, {"model.init.nonzeros": [1, 2], "model.init": ["sparse"]})
    assert [cell.model.init for cell in sweep.cells] == [el.SparseInit(1), el.SparseInit(2)]


@given(SEEDS, st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_a_trial_can_be_had_by_its_place(seeds, widths):
    sweep = el.grid(TRIAL, {"model.width": widths}, seeds)
    assert [sweep.trial(place) for place in range(len(sweep))] == list(sweep)


@given(SEEDS, SEEDS, st.lists(st.integers(1, 4), min_size=1), st.lists(st.integers(1, 4), min_size=1))
def test_the_sum_of_two_sweeps_has_the_trials_of_both_once(seeds, more, widths, others):
    one, two = el.grid(TRIAL, {"model.width": widths}, seeds), el.grid(TRIAL, {"model.width": others}, more)
    both = one + two
    found = [(trial.cell, trial.seed) for trial in both]
    assert len(found) == len(set(found)) == len(both)
    assert set(found) == {(trial.cell, trial.seed) for sweep in (one, two) for trial in sweep}
    assert both + one == both


def test_seeds_mean_the_same_however_they_are_given():
    sweeps = [el.grid(TRIAL, {}, seeds) for seeds in (3, range(3), [0, 1, 2], (0, 1, 2, 1), np.arange(3))]
    assert all(sweep == sweeps[0] for sweep in sweeps)


def test_a_sweep_with_seeds_has_the_same_cells_each_with_all_of_them():
    axes = {"model.width": [1, 2]}
    assert el.grid(TRIAL, axes, [7, 3]).with_seeds(4) == el.grid(TRIAL, axes, 4)
    with pytest.raises(SweepError, match="seeds is empty"):
        el.grid(TRIAL, axes).with_seeds([])


def test_only_sweeps_can_be_added():
    with pytest.raises(TypeError, match="unsupported operand"):
        el.grid(TRIAL, {}) + TRIAL


@pytest.mark.parametrize(("seeds", "expected"), [(range(2, 5), (12, 13, 14)), ([7, 3], (17, 13))])
def test_a_shifted_sweep_has_the_same_cells_and_later_seeds(seeds, expected):
    sweep = el.grid(TRIAL, {"model.width": [1, 2]}, seeds)
    shifted = sweep.shifted(10)
    assert (shifted.cells, shifted.seeds) == (sweep.cells, expected)


@pytest.mark.slow
def test_a_sweep_of_a_hundred_thousand_trials_costs_no_more_memory_than_its_cells():
    tracemalloc.start()
    sweep = el.grid(TRIAL, {"model.width": range(1, 11)}, seeds=10_000)
    for _ in sweep:
        pass
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(sweep) == 100_000
    assert peak < 2**20


@pytest.mark.parametrize(
    ("axes", "seeds", "error", "message"),
    [
        ({"model.widht": [1]}, 1, TrialError, "MLP has no field 'widht'; did you mean 'width'?"),
        ({"modle.width": [1]}, 1, TrialError, "Trial has no field 'modle'; did you mean 'model'?"),
        ({"model.width.x": [1]}, 1, TrialError, "'width' of MLP has no fields of its own: 'width.x'"),
        ({"model.width": [0]}, 1, TrialError, "width must be greater than or equal to 1: width=0"),
        ({"task.k": [21]}, 1, TrialError, "k must be at most n: k=21, n=20"),
        ({"regime": ["onlin"]}, 1, TrialError, "unknown regime 'onlin'; did you mean 'online'?"),
        ({"model.width": []}, 1, SweepError, "an axis must have at least one value: model.width=[]"),
        ({"model.width": 10}, 1, SweepError, "an axis must be a list of values: model.width=10"),
        ({"regime": "online"}, 1, SweepError, "an axis must be a list of values: regime='online'"),
        ({"seed": [1, 2]}, 1, SweepError, "seeds must be given as seeds, not as an axis: axis 'seed'"),
        ({}, 0, SweepError, "the number of seeds must be at least 1: seeds=0"),
        ({}, [], SweepError, "seeds is empty: seeds=[]"),
        ({}, [2**64], SweepError, f"a seed must be from 0 to 2^64 - 1: seed={2**64}"),
        ({}, [-1], SweepError, "a seed must be from 0 to 2^64 - 1: seed=-1"),
        ({}, [0.5], ArgumentError, "seeds must be a whole number, a range or a list of whole numbers: seeds=[0.5]"),
    ],
)
def test_a_wrong_grid_is_refused_with_rule_and_value(axes, seeds, error, message):
    with pytest.raises(error) as raised:
        el.grid(TRIAL, axes, seeds)
    assert str(raised.value) == message


def test_the_example_is_a_sweep_that_runs():
    sweep = el.Sweep.from_toml(EXAMPLE_TOML)
    table = el.run(sweep)
    assert len(table) == len(sweep) == 20
    assert set(table.state) <= {"solved", "unsolved"}


@given(SEEDS, st.lists(st.integers(1, 100), min_size=1, max_size=3), st.booleans())
def test_a_sweep_file_means_the_grid_that_it_describes(seeds, sizes, online):
    axes = {"regime": [f"sample:{size}" for size in sizes] + ["online"] * online, "model.width": [1, 2]}
    seeds = seeds if isinstance(seeds, int) else [seed % 2**63 for seed in seeds]
    record = {"seeds": seeds, "trial": TRIAL.model_dump(mode="json", exclude_none=True), "axes": axes}
    assert el.Sweep.from_toml(tomli_w.dumps(record)) == el.grid(TRIAL, axes, seeds)


HEAD = tomli_w.dumps({"trial": TRIAL.model_dump(mode="json", exclude_none=True)})


def test_paths_of_axes_may_be_written_with_quotes_or_without():
    quoted = el.Sweep.from_toml(HEAD + '[axes]\n"model.width" = [1, 2]\n')
    assert el.Sweep.from_toml(HEAD + "[axes]\nmodel.width = [1, 2]\n") == quoted
    assert el.Sweep.from_toml(HEAD + "[axes.model]\nwidth = [1, 2]\n") == quoted


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("sedes = 3\n" + HEAD, SweepError, "a sweep file has no key 'sedes'; did you mean 'seeds'?"),
        ('seeds = "3"\n' + HEAD, SweepError, "seeds of a sweep file must be a number or a list: seeds='3'"),
        ("seeds = 3\n", SweepError, "a sweep file must have a trial: the tables"),
        (HEAD.replace("[trial.task]", "[trial.tusk]"), TrialError, "Trial has no field 'tusk'; did you mean 'task'?"),
        (HEAD.replace("width", "widht"), TrialError, "MLP has no field 'widht'; did you mean 'width'?"),
        (HEAD + '[axes]\n"model.widht" = [1]', TrialError, "MLP has no field 'widht'; did you mean 'width'?"),
        (HEAD + "[axes]\nmodel.width = 1", SweepError, "an axis must be a list of values: model.width=1"),
        (
            HEAD + '[axes]\n"model.width" = [1]\nmodel.width = [1]',
            SweepError,
            "an axis must be given once: 'model.width'",
        ),
        (
            HEAD + '[axes]\n"model.width" = [1]\n"model.width" = [1]',
            SweepError,
            "a sweep file must be TOML: Cannot overwrite",
        ),
        ("seeds = \n", SweepError, "a sweep file must be TOML: "),
        ("seeds = true\n" + HEAD, SweepError, "seeds must be a number of seeds or whole numbers: seeds=True"),
        ("seeds = [0, true]\n" + HEAD, SweepError, "seeds must be a number of seeds or whole numbers: seeds=[0, True]"),
        (HEAD + '[axes]\n"model.width" = {}', SweepError, "an axis must have at least one value: model.width={}"),
        (HEAD + '[axes]\n"model.width" = []', SweepError, "an axis must have at least one value: model.width=[]"),
        (HEAD + "[axes]\nmodel = {}", SweepError, "an axis must have at least one value: model={}"),
        (HEAD + "[axes.model.init]\n", SweepError, "an axis must have at least one value: model.init={}"),
        (
            HEAD + f'[axes]\n"model.width" = {[*range(1, 300_001)]}',
            SweepError,
            "a grid must have at most 100,000 cells: 300000",
        ),
        ('store = ""\n' + HEAD, SweepError, "store of a sweep file must name files in its folder or below: store=''"),
        (
            'import = [""]\n' + HEAD,
            SweepError,
            "import of a sweep file must name files in its folder or below: import=''",
        ),
        (
            "import = [1]\n" + HEAD,
            SweepError,
            "import of a sweep file must name files in its folder or below: import=1",
        ),
        ("nowhere.toml", SweepError, "a sweep file must be readable: nowhere.toml (No such file or directory)"),
    ],
)
def test_a_wrong_sweep_file_is_refused_with_rule_and_value(text, error, message):
    with pytest.raises(error) as raised:
        el.Sweep.from_toml(text)
    assert str(raised.value).startswith(message)
    assert "\n" not in str(raised.value)


def test_paths_in_a_sweep_file_are_relative_to_it(tmp_path):
    (tmp_path / "my_task.py").write_text(
        "from elegans.tasks import SparseParity\nclass MyParity(SparseParity):\n    'My own.'\n"
    )
    (tmp_path / "my.toml").write_text(
        'import = ["my_task.py"]\nstore = "my.db"\nengine = "jax"\n' + HEAD.replace("sparse-parity", "my-parity")
    )
    for source in (tmp_path / "my.toml", str(tmp_path / "my.toml")):
        sweep = el.Sweep.from_toml(source)
        assert sweep.cells[0].task.kind == "my-parity"
        assert (sweep.store, sweep.engine) == (str(tmp_path / "my.db"), "jax")


@pytest.fixture
def outside(tmp_path, monkeypatch):
    """A folder for a sweep file, beside another one with a Python file that must not run, and an empty file."""
    other = tmp_path / "other"
    for folder in (other, tmp_path / "mine" / "below"):
        folder.mkdir(parents=True)
        (folder / "own.py").write_text("raise SystemExit('it ran')\n" if folder == other else "")
    (other / "empty").touch()
    (tmp_path / "mine" / "link.py").symlink_to(other / "own.py")
    (tmp_path / "mine" / "link").symlink_to(other)
    monkeypatch.setenv("HOME", str(other))
    monkeypatch.chdir(tmp_path / "mine")
    return other


@pytest.mark.parametrize("source", ["a path", "a text"])
@pytest.mark.parametrize("place", ["../other/", "{other}/", "link/", "below/../../other/", "~/", "../mine/../other/"])
@pytest.mark.parametrize(("key", "name"), [("import", "own.py"), ("store", "empty"), ("store", "new.db")])
def test_a_sweep_file_names_no_file_outside_its_folder(outside, source, place, key, name):
    named = place.format(other=outside) + name
    text = f"{key} = {[named] if key == 'import' else named!r}\n{HEAD}"
    Path("my.toml").write_text(text)
    with pytest.raises(SweepError, match=f"^{key} of a sweep file must name files in its folder or below: {key}="):
        el.Sweep.from_toml(text if source == "a text" else "my.toml")
    assert not (outside / "new.db").exists() and not (outside / "empty").read_bytes()


def test_a_link_beside_a_sweep_file_leads_to_no_file_elsewhere(outside):
    with pytest.raises(
        SweepError, match=r"import of a sweep file must name files in its folder or below: import='link.py'"
    ):
        el.Sweep.from_toml(f'import = ["link.py"]\n{HEAD}')


def test_a_sweep_file_imports_files_below_it_unless_that_is_refused(outside):
    text, loaded = f'import = ["below/own.py"]\n{HEAD}', []
    assert len(el.Sweep.from_toml(text, load=loaded.append)) == 1
    assert [str(path) for path in loaded] == ["below/own.py"]
    with pytest.raises(SweepError, match=r"must not import files where imports are refused: import=\['below/own.py'\]"):
        el.Sweep.from_toml(text, load=None)


@pytest.mark.parametrize("blank", [b"", "a database without tables"])
def test_a_sweep_file_makes_no_store_of_a_file_that_is_none(tmp_path, monkeypatch, blank):
    monkeypatch.setattr(sweep_module, "ADOPTION_SECONDS", 0.1)
    file = tmp_path / "notes.db"
    if blank:
        with closing(sqlite3.connect(file)) as database:
            database.execute("PRAGMA journal_mode = WAL")
    else:
        file.touch()
    before = file.read_bytes()
    (tmp_path / "my.toml").write_text(f'store = "notes.db"\n{HEAD}')
    with pytest.raises(SweepError, match=r"store of a sweep file must be a new file or a store: .*notes.db is empty"):
        el.Sweep.from_toml(tmp_path / "my.toml")
    assert file.read_bytes() == before
    file.unlink()
    el.Store(file).close()
    assert el.Sweep.from_toml(tmp_path / "my.toml").store == str(file)


@pytest.mark.parametrize("url", ["sqlite:///notes.db", "postgresql://localhost/x", "mysql://nowhere/x"])
def test_a_sweep_file_names_no_database_by_url(url):
    with pytest.raises(SweepError, match="store of a sweep file must be a file in its folder or below; a database is"):
        el.Sweep.from_toml(f"store = {url!r}\n{HEAD}")


def test_a_sweep_file_of_megabytes_is_refused_before_it_is_read(tmp_path):
    file = tmp_path / "long.toml"
    file.write_text("#" * 5_000_001)
    with pytest.raises(SweepError, match="a sweep file must have at most 5,000,000 bytes: .* has 5,000,001"):
        el.Sweep.from_toml(file)


@pytest.mark.parametrize(
    ("seeds", "message"),
    [
        ((0, 1.5), "the seeds of a sweep must be whole numbers: seed=1.5"),
        ((True,), "the seeds of a sweep must be whole numbers: seed=True"),
        (np.arange(3), "the seeds of a sweep must be whole numbers: seed="),
        ((-1,), "a seed must be from 0 to 2^64 - 1: seed=-1"),
        ((2**64,), "a seed must be from 0 to 2^64 - 1: seed=18446744073709551616"),
        (range(-1, 3), "a seed must be from 0 to 2^64 - 1: seed=-1"),
        ((3, 3), "the seeds of a cell must be distinct: seeds=(3, 3)"),
    ],
)
def test_a_sweep_made_from_parts_checks_its_seeds(seeds, message):
    """Otherwise a store would be given trials that it cannot read back."""
    with pytest.raises(el.errors.SweepError, match=re.escape(message)):
        el.Sweep(((TRIAL, seeds),))


@pytest.mark.parametrize("seed", [-1, 2**64, 1.5, True, "1", None])
def test_a_trial_with_another_seed_checks_it(seed):
    with pytest.raises(el.errors.TrialError, match=r"a seed must be a whole number from 0 to 2\^64 - 1: seed="):
        TRIAL.with_seed(seed)
    assert type(TRIAL.with_seed(np.uint8(7)).seed) is int


def test_a_sweep_of_cells_has_them_in_order_with_the_same_seeds():
    cells = [TRIAL.replace("model.width", width) for width in (5, 3)]
    assert el.Sweep.of(iter(cells), 2).parts == ((cells[0], range(2)), (cells[1], range(2)))
    assert el.Sweep.of(cells, [4, 7]).parts == ((cells[0], (4, 7)), (cells[1], (4, 7)))
    assert el.Sweep.of([cells[0], cells[1], cells[0].with_seed(3)], 2) == el.Sweep.of(cells, 2), "each cell once"
    with pytest.raises(SweepError, match="seed"):
        el.Sweep.of(cells, [-1])


def test_a_sweep_of_no_cells_is_refused():
    with pytest.raises(SweepError, match=r"^a sweep must have at least one cell: cells=\[\]$"):
        el.Sweep.of([])
