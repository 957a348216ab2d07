"""A file of one's own is an experiment like those of the studies: its path goes wherever a name goes."""

import json
import re
import shlex
from dataclasses import replace

import pytest
from laboratory import TRIAL

import elegans as el
from elegans import discovery
from elegans.errors import ElegansError, ExperimentError
from elegans.experiments import Claim, evidence, registry, run_experiment
from elegans.plots.style import panels

FILE = '''"""My first study: how many examples a majority needs."""

import elegans as el
from elegans.experiments import Claim, InsufficientData, Verdict
from elegans.plots.style import panels

TASK = el.SparseParity(n=5, k=2)


def sweep(seeds):
    trial = el.Trial(task=TASK, regime=el.Sample(10), model=el.MLP(width=8), training=el.SGD(steps=20))
    return el.grid(trial, {"regime.size": [10, 200]}, seeds=seeds)


def analyse(results):
    return {"table": el.analysis.summarise_cells(results.trials, by=["regime.size"])}


def plot(tables):
    figure, ((ax,),) = panels(1, 1)
    ax.plot(tables["table"]["regime.size"], tables["table"]["rate"])
    return figure


def more_is_better(tables):
    rates = tables["table"].set_index("regime.size")["rate"]
    if 200 not in rates:
        raise InsufficientData("a sample of 200")
    verdict = "holds" if rates[200] >= rates[10] else "fails"
    return Verdict(verdict, f"{rates[10]} at 10 and {rates[200]} at 200 examples", {"rates": [*rates]})


RULE = "the rate at 200 examples is at least that at 10"


EXPERIMENT = el.Experiment(
    name="majority-examples",
    shows="More examples, more success",
    source="figure 1",
    scales={"smoke": el.Scale(sweep, trials=2)},
    analyse=analyse,
    plot=plot,
    claims=[Claim("own/more", "More examples help.", "section 1", RULE, more_is_better)],
)
'''
OWN_TASK = '''class Majority(el.Task):
    """The majority of the first three signs."""

    n: int

    @property
    def input_size(self):
        return self.n

    def draw(self, key):
        return None

    def examples(self, hidden, key, index):
        x = el.random.rademacher(key, index, self.n)
        return x, 2 * (x[:, :3].sum(axis=1) > 0).astype("float32") - 1


TASK = Majority(n=5)
'''


@pytest.fixture
def own(tmp_path, monkeypatch):
    """The path of the file, forgotten after the test."""
    monkeypatch.setattr(discovery, "LOADED", {})
    path = tmp_path / "majority.py"
    path.write_text(FILE)
    return path


@pytest.mark.slow
def test_every_command_that_takes_an_experiment_takes_its_file(run_apart, tmp_path):
    def run(*arguments):
        ended = run_apart(tmp_path, "-m", "elegans", *arguments)
        assert ended.code == 0, ended.out + ended.err
        return ended.out

    (tmp_path / "majority.py").write_text(FILE.replace("TASK = el.SparseParity(n=5, k=2)\n", OWN_TASK))
    out = run("run", "majority.py", "--scale", "smoke", "--evidence")
    assert re.search(r"^(holds|fails)  +own/more: ", out, re.MULTILINE)
    assert "4 of 4 trials done (4 of them by this run" in out
    assert f"evidence {tmp_path / 'evidence' / 'majority-examples.smoke.json'}" in out
    record = json.loads((tmp_path / "results" / "majority-examples" / "smoke" / "record.json").read_text())
    assert record["source"] == "My first study: how many examples a majority needs. figure 1"
    assert "4 of 4 trials done (0 of them by this run" in run("run", "majority.py", "--scale", "smoke")
    out = run("list", "majority.py")
    assert out.startswith("majority-examples\n") and "My first study" in out and "smoke (" in out
    out = run("claims", "majority.py")
    assert "own/more (smoke): More examples help." in out and "pareto/" not in out
    assert "1 equal, 0 differ, 0 cannot be judged" in run("rejudge", "majority.py")
    assert run("verify", "majority.py").endswith("the verdict is the same\n")
    assert run("plan", "majority.py", "--scale", "smoke").startswith("majority-examples at scale smoke: 4 trials in 2 ")
    record = "results/majority-examples/smoke/record.json"
    assert run("rerun", record, "--import", "majority.py").endswith("the results are the same: 4 trials\n")


@pytest.mark.slow
def test_what_changed_since_the_last_run_of_an_own_file_is_said(run_apart, tmp_path):
    def run(*arguments, code=0):
        ended = run_apart(tmp_path, "-m", "elegans", *arguments)
        assert ended.code == code, ended.out + ended.err
        return " ".join((ended.out + ended.err).split())

    text = FILE.replace("TASK = el.SparseParity(n=5, k=2)\n", OWN_TASK)
    (tmp_path / "majority.py").write_text(text)
    run("run", "majority.py", "--scale", "smoke", "--evidence")
    assert "own/more" in run("claims", "own/more", "--import", "majority.py")
    (tmp_path / "majority.py").write_text(text.replace('"holds" if', '"fails" if'))
    out = run("claims", "majority.py")
    assert "note judged by an earlier version of the rule: own/more; `elegans rejudge majority.py --write`" in out
    out = run("run", "majority.py", "--scale", "smoke")
    assert "note the rule of own/more has changed since the last run, which said: holds" in out
    assert "has changed" not in run("run", "majority.py", "--scale", "smoke")
    evidence_file = tmp_path / "evidence" / "majority-examples.smoke.json"
    kept = evidence_file.read_text()
    (tmp_path / "majority.py").write_text(text.replace("x[:, :3]", "x[:, :1]"))
    out = run("run", "majority.py", "--scale", "smoke", "--evidence", code=2)
    assert "4 of 4 trials were trained before the code of task 'majority' changed" in out and "--retrain-changed" in out
    assert evidence_file.read_text() == kept
    run("run", "majority.py", "--scale", "smoke", "--evidence", "--retrain-changed")
    assert evidence_file.read_text() != kept
    run("run", "majority.py", "--scale", "smoke", "--evidence")


def test_a_rule_of_an_own_file_changes_its_version_with_its_own_code_alone(own):
    versions = []
    for text in (
        FILE,
        FILE.replace("EXPERIMENT =", "# a comment\nEXPERIMENT ="),
        FILE.replace("200 not in", "100 not in"),
    ):
        path = own.with_name(f"copy{len(versions)}.py")
        path.write_text(text.replace("majority-examples", path.stem))
        versions.append(el.find(path).claims[0].version)
    assert versions[0] == versions[1] != versions[2]


def test_an_experiment_need_not_have_a_name_that_is_known(own, tmp_path):
    experiment = el.find(own)
    assert el.find(experiment) is experiment is registry.EXPERIMENTS["majority-examples"]
    results = [run_experiment(each, "smoke", out=tmp_path, workers=1) for each in (experiment, own, str(own))]
    assert {result.experiment.name for result in results} == {"majority-examples"}
    assert el.verdict_of("own/more") is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", "a file of experiments must define an Experiment at its top level: .*majority.py"),
        (
            FILE + "\nOTHER = replace(EXPERIMENT, name='other')",
            r"majority.py has several experiments, import it and name one: majority-examples, other "
            r"\(majority-examples --import .*majority.py in the shell\)",
        ),
        (
            FILE.replace("majority-examples", "grokking"),
            "experiments must have different names: name='grokking', EXPERIMENT in .*hidden_progress.grokking, "
            "EXPERIMENT in .*majority.*; rename one",
        ),
        ("from elegans.experiments import find\nEXPERIMENT = find('grokking')", "must define an Experiment at its top"),
        ("import nonsense", "an extension must import without an error: .*majority.py, line 1: ModuleNotFoundError"),
    ],
)
def test_a_file_without_a_single_experiment_of_its_own_is_refused(own, text, message):
    own.write_text(text.replace("import elegans as el", "import elegans as el\nfrom dataclasses import replace"))
    with pytest.raises(el.ElegansError, match=message):
        el.find(own)


def test_a_file_that_does_not_exist_and_a_name_that_is_unknown_say_what_can_be_named(own):
    with pytest.raises(el.ElegansError, match=r"no such file: .*nowhere\.py"):
        el.find(own.with_name("nowhere.py"))
    with pytest.raises(
        ExperimentError, match=r"unknown experiment 'gate'; `elegans list` lists all, and your own is named by"
    ):
        el.find("gate")


@pytest.mark.parametrize("name", [("majority.py",), ("majority-examples", "--import", "majority.py")])
def test_the_next_larger_run_of_an_own_file_is_a_command_that_runs(elegans, own, name):
    more = '"smoke": el.Scale(sweep, trials=2), "laptop": el.Scale(sweep, trials=2)'
    text = FILE.replace('"smoke": el.Scale(sweep, trials=2)', more)
    undecided = 'return Verdict("undecided", "rates 0 and 1", needs="more networks")'
    own.write_text(text.replace("return Verdict(verdict", f"{undecided}\n    return Verdict(verdict"))
    command = ["run", *name, "--scale", "laptop"]
    said = elegans("run", *name, "--scale", "smoke")[1]
    assert f"the next larger run: elegans {shlex.join(command)}" in " ".join(said.split())
    code, out, _ = elegans(*command)
    assert (code, "own/more: rates 0 and 1; needs more networks" in out) == (0, True), out


def test_a_rule_that_names_no_column_of_its_table_does_not_blame_the_size_of_the_run(elegans, own):
    more = '"smoke": el.Scale(sweep, trials=2), "laptop": el.Scale(sweep, trials=2)'
    looks = 'rules.table(tables, "table", "200 examples", regime_size=200)\n    rates ='
    text = FILE.replace('"smoke": el.Scale(sweep, trials=2)', more).replace("rates =", looks, 1)
    own.write_text(
        text.replace("import elegans as el\n", "import elegans as el\nfrom elegans.experiments import rules\n")
    )
    out = " ".join(elegans("run", "majority.py", "--scale", "smoke")[1].split())
    assert "undecided own/more: needs 200 examples; the table table has no column regime_size" in out
    assert "too few trials" not in out


def test_a_file_of_several_experiments_lists_them_and_a_command_that_runs_one(elegans, own):
    text = FILE.replace("import elegans as el", "import elegans as el\nfrom dataclasses import replace")
    own.write_text(text + "\nOTHER = replace(EXPERIMENT, name='other', claims=())")
    last = elegans("list", "majority.py")[1].splitlines()[-1]
    assert last == "2 experiments; to run one: elegans run majority-examples --import majority.py"


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("run", "gate"), "your own is named by its file, own.py, or needs --import own.py"),
        (("claims", "flips/200-examples"), "a claim of your own file needs --import own.py"),
    ],
)
def test_an_unknown_name_says_how_own_files_are_named(elegans, arguments, hint):
    code, _, err = elegans(*arguments)
    assert code == 2 and hint in err


def test_the_explorer_opens_the_results_of_an_own_file(elegans, own):
    from elegans.cli.commands.explore import _places

    assert elegans("run", "majority.py", "--scale", "smoke")[0] == 0
    folder = "results/majority-examples"
    assert _places("majority.py") == _places(folder) == _places(f"{folder}/smoke") == [f"{folder}/runs.db"]


def test_a_file_without_a_scale_laptop_runs_at_its_first_and_says_so(own, elegans, tmp_path):
    said = "majority-examples has no scale laptop, so this is its first scale, smoke"
    for command in (("plan",), ("run",), ("run", "--draw-only")):
        code, _, err = elegans(*command, "majority.py")
        assert (code, said in err) == (0, command != ("plan",)), err
    assert run_experiment(own, out=tmp_path, workers=1).scale == "smoke"
    assert {"laptop", "smoke"} <= el.find("grokking").scales.keys()
    assert el.find("grokking").scale_name(None) == "laptop"


def test_a_file_of_a_study_is_the_study_s_experiment():
    path = discovery.studies()["pareto_frontiers"].folder / "success_frontier.py"
    assert el.find(path) is el.find("success-frontier")


@pytest.mark.slow
def test_every_claim_of_a_file_is_verified(own, elegans):
    claim = re.search(r"Claim\(.*\)", FILE)[0]
    own.write_text(FILE.replace(f"[{claim}]", f"[{claim}, {claim.replace('own/more', 'own/again')}]"))
    assert elegans("verify", "majority.py")[0] == 2
    without = "majority.py has no evidence to judge; `elegans run majority.py --evidence` keeps some"
    assert elegans("rejudge", "majority.py")[::2] == (2, f"error: {without}\n")
    assert elegans("run", "majority.py", "--evidence")[0] == 0
    code, out, _ = elegans("verify", "majority.py")
    assert (code, out.count("the verdict is the same")) == (0, 2)
    assert re.findall(r"^own/\w+(?=, decided by [\w-]+ at scale)", out, re.MULTILINE) == ["own/more", "own/again"]


@pytest.mark.slow
def test_decided_claims_of_a_file_are_run_again_on_fresh_seeds_and_kept(own, elegans):
    own.write_text(FILE.replace('{"rates": [*rates]})', '{"rates": [*rates]}, 0.05)'))
    assert elegans("run", "majority.py", "--evidence", "--seeds", "3")[0] == 0
    left = "1 experiment left for a run with more --minutes"
    assert elegans("verify", "majority.py", "--fresh", "--minutes", "0")[1].splitlines()[-1] == left
    code, out, _ = elegans("verify", "majority.py", "--fresh")
    kept = own.parent / "evidence" / "fresh" / "majority-examples.smoke.json"
    record = json.loads(kept.read_text())
    again = record["verdicts"]["own/more"]["verdict"]
    before = json.loads((own.parent / "evidence" / kept.name).read_text())["verdicts"]["own/more"]["verdict"]
    same, opposite = int(again == before), int(again != before)
    last = f"1 claim on fresh seeds: {same} with the same verdict, {opposite} with the opposite one"
    assert (code, out.splitlines()[-1]) == (opposite, last)
    assert (record["record"]["first_seed"], record["record"]["trials"]) == (1_000_000, 6)  # as many as the evidence
    written = kept.stat().st_mtime_ns
    assert elegans("verify", "majority.py", "--fresh")[1].splitlines()[-1] == last
    assert kept.stat().st_mtime_ns == written  # not run again
    assert "2 verdicts in " in elegans("rejudge", "majority.py")[1]
    assert elegans("run", "majority.py", "--evidence", "--seeds", "4")[0] == 0
    elegans("verify", "majority.py", "--fresh")
    record = json.loads(kept.read_text())
    assert record["record"]["trials"] == 8  # run again, as the evidence has more trials, and on seeds of its own
    assert record["record"]["first_seed"] == 2_000_000
    record["record"]["date"] = "2020" + record["record"]["date"][4:]
    for numbers, is_run in (({"rate": 1}, False), ({}, True)):  # an older run is run again only if a rule lacks trials
        record["verdicts"]["own/more"] |= {"verdict": "undecided", "numbers": numbers}
        kept.write_text(json.dumps(record))
        evidence.of_folder.cache_clear()
        elegans("verify", "majority.py", "--fresh")
        assert (json.loads(kept.read_text())["record"]["date"] != record["record"]["date"]) == is_run
    record = json.loads(kept.read_text())
    record["verdicts"]["own/more"]["rule"] = "another"  # a rule that has changed may have been chosen by these seeds
    kept.write_text(json.dumps(record))
    evidence.of_folder.cache_clear()
    elegans("verify", "majority.py", "--fresh")
    assert json.loads(kept.read_text())["record"]["first_seed"] > record["record"]["first_seed"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "verify needs a claim or a file; only with --fresh does it verify all decided claims"),
        (("--fresh", "--study", "moonlight"), "unknown study 'moonlight'; known: "),
        (
            ("--fresh", "--scale", "smoke"),
            "--fresh chooses seeds and scales itself: give no --scale or --first-seed",
        ),
        (("majority.py", "--minutes", "3"), "--minutes needs --fresh"),
        (("majority.py", "--study", "xor_two_phases"), "--study needs --fresh"),
    ],
)
def test_options_of_verify_that_do_not_go_together_are_refused(own, elegans, words, message):
    code, out, err = elegans("verify", *words)
    assert (code, out) == (2, "") and err.startswith(f"error: {message}")


def test_the_rules_of_a_file_are_judged_where_there_is_nothing_to_find(own, elegans):
    own.write_text(FILE.replace('{"rates": [*rates]})', '{"rates": [*rates]}, 0.05)').replace("steps=20", "steps=3000"))
    assert elegans("run", "majority.py", "--evidence")[0] == 0
    code, out, _ = elegans("rejudge", "majority.py", "--null", "untrained")
    last = "1 verdict on trials, 1 of them touched by untrained outcomes; still hold: 1, unexplained: 1"
    assert code == 1 and out.splitlines()[0].startswith("own/more holds: 0") and out.splitlines()[-1] == last
    refused = "error: --write keeps verdicts on the evidence, but --null judges other tables\n"
    assert elegans("rejudge", "majority.py", "--null", "permuted", "--write")[2] == refused


@pytest.mark.slow
def test_evidence_of_other_trials_is_set_aside_with_its_tables(own, elegans):
    folder = own.parent / "evidence"

    def run(seed):
        assert elegans("run", "majority.py", "--evidence", "--first-seed", str(seed))[0] == 0
        return (folder / "majority-examples.smoke.csv").read_bytes()

    first = run(0)
    assert run(0) == first and not (folder / "earlier").exists()  # the same trials: nothing to set aside
    second = run(7)
    run(0)
    tables = [(folder / "earlier" / f"majority-examples.smoke.{number}.csv").read_bytes() for number in (1, 2)]
    assert tables == [first, second]
    record = json.loads((folder / "earlier" / "majority-examples.smoke.2.json").read_text())
    assert record["record"]["first_seed"] == 7
    assert record["tables"]["table"]["file"] == "majority-examples.smoke.2.csv"
    assert elegans("claims", "majority.py")[1].count("own/more") == 1
    out = elegans("claims", "own/more")[1]
    assert out.count("by earlier trials at scale smoke") == 2
    assert "1 verdict in " in elegans("rejudge", "majority.py")[1]


def test_findings_that_are_not_finite_are_kept_as_null(own, elegans):
    own.write_text(
        FILE.replace("    claims=", '    findings=lambda tables: {"ratio": float("nan"), "of": 2},\n    claims=')
    )
    assert elegans("run", "majority.py", "--evidence")[0] == 0
    record = json.loads((own.parent / "evidence" / "majority-examples.smoke.json").read_text())["record"]
    assert record["findings"] == {"ratio": None, "of": 2}


def test_a_file_without_a_claim_has_nothing_to_verify(own, elegans):
    own.write_text(re.sub(r"    claims=.*\n", "", FILE))
    assert elegans("verify", "majority.py")[2] == "error: a file to be verified must have a claim: majority.py\n"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            '["table"]["rate"]',
            '["table"]["success"]',
            "plot of copy must not raise: KeyError: 'success'; known: .*, rate, regime.size, .* (copy.py, line ",
        ),
        (
            '["table"]["regime.size"]',
            '["table"].groupby("regime.sise")',
            "plot of copy must not raise: KeyError: 'regime.sise'; did you mean 'regime.size'? (copy.py, line ",
        ),
        (
            '["table"]["rate"]',
            '["cells"]["rate"]',
            "plot of copy must not raise: KeyError: 'cells'; known: table (copy.py, line ",
        ),
        (
            "results.trials,",
            'results.measures["wait-movement"],',
            "analyse of copy must not raise: KeyError: 'wait-movement'; did you mean 'weight-movement'? (copy.py, ",
        ),
        ("return figure", "pass", "plot of copy must return a matplotlib figure: a NoneType"),
        (
            'return {"table": el.analysis.summarise_cells(results.trials, by=["regime.size"])}',
            'return el.analysis.summarise_cells(results.trials, by=["regime.size"])',
            "analyse of copy must return data frames by name, as in {'cells': table}: a DataFrame",
        ),
        (
            "return Verdict(verdict,",
            "return 1 > 0 or (verdict,",
            "the rule of a claim must return a Verdict: own/more returns True",
        ),
        ("results.trials,", "results.rows,", "analyse of copy must not raise: AttributeError: .* (copy.py, line "),
        ("200 not in rates", "200 not in rate", "a claim's rule of copy must not raise: NameError: .* (copy.py, line "),
        ('verdict = "holds" if', 'verdict = "undecided" if', "must state its needs: needs='' (copy.py, line "),
    ],
)
def test_what_an_own_file_raises_after_training_is_one_line_with_its_place(own, tmp_path, old, new, message):
    copy = own.with_name("copy.py")
    copy.write_text(FILE.replace("majority-examples", "copy").replace(old, new))
    with pytest.raises(ElegansError, match=message.replace("(", r"\(").replace("?", r"\?")):
        run_experiment(copy, "smoke", out=tmp_path, workers=1)
    kept = {path.name for path in (tmp_path / "copy" / "smoke").iterdir()} & {"table.csv", "record.json", "figure.png"}
    assert kept == ({"table.csv", "record.json"} if message.startswith("plot") else set()), "a plot costs no verdict"


PARTS = {
    "name": "gate",
    "shows": "",
    "source": "",
    "scales": {"smoke": el.Scale(lambda seeds: None, trials=2)},
    "analyse": lambda results: {},
    "plot": lambda tables: None,
}


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("name", "../x", "an experiment's name must be words of small letters and digits, joined by hyphens or dots: "),
        ("scales", {}, "gate must have a scale: scales={}"),
        ("scales", [1], "scales of gate must be a dictionary by name: scales=[1]"),
        ("scales", {"smoke": 3}, "each of the scales of gate must be a Scale: scales has 3"),
        ("analyse", 3, "analyse of gate must be a function: analyse=3"),
        ("plot", 3, "plot of gate must be a function: plot=3"),
        ("findings", 3, "findings of gate must be a function: findings=3"),
        ("probes", 3, "probes of gate must be a list: probes=3"),
        ("probes", [3], "each of the probes of gate must be a Probe: probes has 3"),
        ("claims", ["more"], "each of the claims of gate must be a Claim: claims has 'more'"),
        ("claims", [Claim("own/more", "", "", "", None)], "a claim must have a rule: own/more: decide=None"),
        ("options", {"group": 3}, "each of the options of gate must be an Option: options has 3"),
    ],
)
def test_an_experiment_refuses_at_once_what_would_fail_later(part, value, message):
    with pytest.raises(ExperimentError, match=re.escape(message)):
        el.Experiment(**{**PARTS, part: value})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ((3, 2), "a scale's sweep must be a Sweep, or a function of the number of trials per cell that returns one"),
        ((len, 0), "trials must be a whole number of at least 1: trials=0"),
        ((len, 1, -1), "rounds must be a whole number of at least 0: rounds=-1"),
        ((len, 2, True), "rounds must be a whole number of at least 0: rounds=True"),
    ],
)
def test_a_scale_refuses_what_makes_no_trials(values, message):
    with pytest.raises(ExperimentError, match=re.escape(message)):
        el.Scale(*values)


def test_scales_of_an_experiment_without_a_published_one_are_compared_with_the_largest():
    scale = el.Scale(len, 2)
    own = el.Experiment(**{**PARTS, "scales": {"smoke": scale, "laptop": scale}})
    assert [own.setting(name) for name in own.scales] == ["smaller than its largest scale", "its largest scale"]
    published = el.Experiment(**{**PARTS, "scales": {"smoke": scale, "part": replace(scale, part="half")}})
    assert [published.setting(name) for name in published.scales] == [
        "smaller than published",
        "part of the published: half",
    ]


def test_a_scale_of_cells_gives_each_of_them_its_number_of_trials():
    cells = el.grid(TRIAL, {"model.width": [10, 20]})
    assert list(el.Scale(cells, 3).cells(3)) == list(el.grid(TRIAL, {"model.width": [10, 20]}, seeds=3))


def test_a_scale_without_a_sweep_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(ExperimentError, match="a scale's function must return a Sweep: NoneType"):
        run_experiment(el.Experiment(**PARTS), "smoke", out=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_probes_may_be_a_list(tmp_path):
    def sweep(seeds):
        task, model = el.SparseParity(n=5, k=2), el.MLP(width=8)
        trial = el.Trial(task=task, regime=el.Online(), model=model, training=el.SGD(steps=20))
        return el.grid(trial, {}, seeds=seeds)

    def analyse(results):
        return {"table": results.measures["weight-movement"]}

    probes = [el.probes.WeightMovement(every=10)]
    parts = {**PARTS, "scales": {"smoke": el.Scale(sweep, trials=2)}, "analyse": analyse, "probes": probes}
    plot = lambda tables: panels(1, 1)[0]  # noqa: E731
    result = run_experiment(el.Experiment(**{**parts, "plot": plot}), "smoke", out=tmp_path, workers=1)
    assert set(result.tables["table"].step) == {0, 10, 20}
