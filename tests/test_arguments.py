"""Public functions name the type that they take, and what they were given instead."""

import itertools
import re

import numpy as np
import pandas as pd
import pytest

import elegans as el
from elegans.arguments import checked
from elegans.errors import AnalysisError, ArgumentError, EngineError, ExperimentError, shown

TRIAL = el.Trial(
    task=el.SparseParity(n=10, k=2),
    regime=el.Sample(100),
    model=el.MLP(width=4),
    training=el.SGD(steps=5),
)
PROBE = el.probes.WeightMovement(every=5)
WORDS = pd.DataFrame({"regime": ["x"], "model": ["x"], "state": ["solved"], "solved_at": ["x"]})


def outcome():
    return el.train(TRIAL)


def scaling(cells, **options):
    return el.analysis.scaling_exponent(cells, generator=np.random.default_rng(0), **options)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: el.train(el.grid(TRIAL, {})), "trial must be a Trial: trial=Sweep(1 trial of 1 cell)"),
        (lambda: el.train(TRIAL, probes=PROBE), "probes must be a list of probes: probes=WeightMovement(every=5"),
        (
            lambda: el.train(TRIAL, probes=["weight-movement"]),
            "probes must be a Probe: probes='weight-movement'; did you mean WeightMovement(",
        ),
        (lambda: el.train(TRIAL, engine=3), "engine must be a string: engine=3"),
        (lambda: el.train(TRIAL, watch=3), "watch must be a function: watch=3"),
        (lambda: el.train(TRIAL, watch=el.probes.WeightMovement), "watch must be a function: watch=<class"),
        (lambda: el.train(TRIAL, watch=lambda: None), "watch must be a function of 1 argument: watch=<function"),
        (lambda: el.train(TRIAL, probes=[el.probes.WeightMovement]), "probes must be a Probe: probes=<class 'eleg"),
        (lambda: el.train(TRIAL, probes=iter([3])), "probes must be a Probe: probes=3"),
        (lambda: el.train(TRIAL, engine="\ud800"), r"engine must be a string that UTF-8 can encode: engine='\ud800'"),
        (lambda: el.run(TRIAL), "sweep must be a Sweep: sweep=a Trial; el.Sweep.of([trial], seeds=[trial.seed]) makes"),
        (lambda: el.run([TRIAL]), "…; el.Sweep.of(trials, seeds=1) makes one, with these seeds instead of the trials'"),
        (lambda: el.run(el.grid(TRIAL, {}), store=5), "store must be a Store, a string or a Path: store=5"),
        (lambda: el.run(el.grid(TRIAL, {}), probes=PROBE), "probes must be a list of probes: probes=WeightMovement("),
        (lambda: el.run(el.grid(TRIAL, {}), workers=1.5), "workers must be a whole number: workers=1.5"),
        (lambda: el.run(el.grid(TRIAL, {}), retry_failed="x"), "retry_failed must be True or False: retry_failed='x'"),
        (lambda: el.grid({"task": 1}, {}), "trial must be a Trial: trial={'task': 1}"),
        (lambda: el.grid(TRIAL, [("model.width", [1])]), "axes must be a dictionary: axes=[('model.width', [1])]"),
        (
            lambda: el.grid(TRIAL, {}, seeds=TRIAL),
            "seeds must be a whole number, a range or a list of whole numbers: ",
        ),
        (lambda: el.Store(5), "url must be a string or a Path: url=5"),
        (lambda: el.Store().outcome(outcome()), "trial must be a Trial: trial=an Outcome"),
        (lambda: el.Store().table(TRIAL), "sweep must be a TrialSet: sweep=a Trial"),
        (lambda: el.grid(TRIAL, {}).shifted("a"), "by must be a whole number: by='a'"),
        (lambda: outcome().network.examples(10**30), "count must be at most 10000000: count=1000"),
        (lambda: el.analysis.SequentialTest(maximum=10**9), "maximum must be at most 2000: maximum=1000000000"),
        (lambda: el.certificates.spectrum(outcome()).coefficient("a"), "members must be a list of whole numbers: mem"),
        (lambda: el.experiments.find("success-frontier").scale(3), "name must be a string: name=3"),
        (lambda: el.certify(TRIAL), "outcome must be an Outcome or a TrainedNetwork: outcome=a Trial"),
        (lambda: el.certify(outcome(), support=3), "support must be a list of whole numbers: support=3"),
        (lambda: el.certify(outcome(), support=[1.5, 2]), "support must be a whole number: support=1.5"),
        (lambda: el.plots.learning_curve(pd.DataFrame()), "outcome must be an Outcome: outcome=a DataFrame of s"),
        (lambda: el.plots.success_frontier(outcome()), "table must be a DataFrame: table=an Outcome"),
        (lambda: el.plots.attention_map([["a"]]), "values must be an array of real numbers: values=[['a']]"),
        (
            lambda: el.plots.success_frontier(pd.DataFrame(), axes=3),
            "axes must be an Axes, a ndarray or a list of axes: axes",
        ),
        (
            lambda: el.plots.attention_by_position(np.ones((7, 2, 6))),
            "weights must have the axes (examples places): wei",
        ),
        (lambda: el.analysis.summarise_cells(TRIAL), "table must be a DataFrame: table=a Trial"),
        (lambda: el.analysis.crossings(["a"], [1]), "x must be an array of real numbers: x=['a']"),
        (lambda: el.analysis.wilson(1j, 2), "successes must be an array of real numbers: successes=1j"),
        (lambda: el.analysis.median([[1, 2]]), "times must have the axes (trials): times=[[1, 2]]"),
        (lambda: el.analysis.quantile(3, 0.5), "times must have the axes (*groups trials): times=3"),
        (lambda: el.analysis.median(np.ma.masked_array([1.0, 2.0], [True, False])), "times must not be masked: times="),
        (
            lambda: el.grid(TRIAL, {}, seeds=itertools.count()),
            "seeds must have at most 1000000 entries: seeds=count",
        ),
        pytest.param(
            lambda: el.analysis.holm(itertools.repeat(0.1)),
            "p_values must have at most 10000000 entries: p_values=repeat(0.1)",
            marks=pytest.mark.slow,  # it reads them all
        ),
        (lambda: el.analysis.holm(range(10**30)), "p_values must have at most 10000000 entries: p_values=range(0"),
        (lambda: el.analysis.holm([0.1, "a"]), "p_values must be a number: p_values='a'"),
        (lambda: el.analysis.holm([10**400]), "p_values must be at most 1.8e308: p_values=2^1328 or more"),
        (lambda: scaling({"a": [1.0]}), "a key of cells must be a number: a key of cells='a'"),
        (lambda: scaling({1.0: ["a"]}), "cells[1.0] must be a number: cells[1.0]='a'"),
        (lambda: scaling({1.0: [1.0]}, resamples=10**30), "resamples must be at most 100000: resamples=1000"),
        (lambda: scaling({1.0: [1.0]}, statistic=int), "statistic must be a function: statistic=<class 'int'>"),
        (lambda: el.tabular.noisy_parity(rows=2**31), "rows must be at most 10000000: rows=2147483648"),
        (lambda: el.tabular.noisy_parity(seed=-1), "seed must be at least 0: seed=-1"),
        (lambda: el.training.margins(None, [1]), "output must be an array of real numbers: output=None"),
    ],
)
def test_another_type_than_a_function_takes_is_named(call, message):
    with pytest.raises(ArgumentError, match=re.escape(message)) as raised:
        call()
    assert isinstance(raised.value, TypeError)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("error", "call", "message"),
    [
        (
            el.errors.TrialError,
            lambda: el.training.margins([[1.0, -1.0]], [5]),
            "margins has no value here: index 5 is out of",
        ),
        (AnalysisError, lambda: el.analysis.crossings([1, 2, 3], [0, 1]), "crossings has no value here: boolean index"),
        (
            AnalysisError,
            lambda: el.analysis.summarise_cells(WORDS),
            "cells has no value here: could not convert string to float: 'x'",
        ),
        (
            ExperimentError,
            lambda: el.plots.figure_of(np.array([3])),
            "figure_of has no value here: 'int' object has no",
        ),
        (
            ValueError,
            lambda: el.tabular.fit([[1.0]], [np.nan], el.tabular.Settings(), [0]),
            "y must hold finite numbers",
        ),
        (
            AnalysisError,
            lambda: el.analysis.SequentialTest().wait(-1, 3),
            "successes and trials must not exceed the maximum number of trials",
        ),
        (AnalysisError, lambda: el.analysis.SequentialTest().verdict(5, 21), "successes and trials must not exceed"),
        (
            el.errors.TrialError,
            lambda: outcome().network([1, 2]),
            "inputs must be an array of shape (count, 10): x=[1, 2]",
        ),
        (
            el.errors.SweepError,
            lambda: el.Sweep([3]),
            "the parts of a sweep must be trials with their seeds: parts=[3]",
        ),
        (el.errors.SweepError, lambda: el.grid(TRIAL, {}).trial(1), "a trial's number must lie in 0..0: number=1"),
        (AnalysisError, lambda: el.analysis.median_interval([1.0], -1), "confidence must lie between 0 and 1: confid"),
        (
            el.errors.TrialError,
            lambda: el.BiasedParity(n=9, k=3, support=range(10**12)),
            "support must have at most 10000000",
        ),
        (
            el.errors.TrialError,
            lambda: el.tabular.inverse_link(np.ones((0, 0)), "softmax"),
            "inverse_link has no value here: zero-size",
        ),
        (el.errors.TrialError, lambda: TRIAL.key("nothing"), "unknown stream 'nothing'"),
        (EngineError, lambda: el.train(TRIAL, engine="x" * 10**5), "unknown engine 'xxxxxxx"),
    ],
)
def test_what_passes_for_its_type_and_cannot_be_computed_with_is_refused_in_one_line(error, call, message):
    with pytest.raises(error, match=re.escape(message)) as raised:
        call()
    assert "\n" not in str(raised.value) and len(str(raised.value)) < 1000


def test_lists_become_arrays_and_iterators_are_read_once():
    assert el.training.margins([2.0, -1.0], [1, 1]).tolist() == [2, -1]
    assert el.analysis.holm(iter([0.1, 0.2])) == el.analysis.holm([0.1, 0.2])


def test_a_call_that_python_refuses_is_refused_by_the_name_of_the_function():
    with pytest.raises(TypeError, match="train: missing a required argument: 'trial'"):
        el.train()


class WrongInit(el.DenseInit, kind="wrong-test-init"):
    transposed: bool = True

    def parameters(self, key, width, task):
        drawn = super().parameters(key, width, task)
        weight = drawn["hidden"]["weight"]
        return {**drawn, "hidden": {"weight": weight.T}} if self.transposed else {"hidden": {"weight": weight}}


class WrongProbe(el.probes.Probe, kind="wrong-test-probe"):
    gives: str

    def measure(self, snapshot):
        given = {
            "list": [1],
            "text": {"a": "b"},
            "growing": {"a": np.zeros(snapshot.step)},
            "later": {"a": 1.0, **({"b": 1.0} if snapshot.step else {})},
            "once": {} if snapshot.step else {"a": 1.0},
        }
        return given.get(self.gives, {self.gives: 1.0})


@pytest.mark.parametrize(
    ("init", "message"),
    [
        (WrongInit(), "the init 'wrong-test-init' must draw hidden.weight of shape (4, 10): shape=(10, 4)"),
        (WrongInit(transposed=False), "the init 'wrong-test-init' must draw hidden.bias of shape (4,): nothing"),
    ],
)
def test_an_init_that_draws_another_shape_is_named(init, message):
    with pytest.raises(el.errors.TrialError, match=re.escape(message)):
        el.train(TRIAL.replace("model.init", init))


@pytest.mark.parametrize(
    ("gives", "message"),
    [
        ("list", "the probe 'wrong-test-probe' must return numbers or arrays by name: got a list"),
        ("text", "the probe 'wrong-test-probe' must return numbers or arrays by name: a='b'"),
        *(
            (name, f"the probe 'wrong-test-probe' must give each quantity its own name: {name!r}")
            for name in ("step", "trial", "seed", "")
        ),
        ("later", "the probe 'wrong-test-probe' must measure the same quantities at all steps: 'b' is new at step 5"),
        (
            "once",
            "the probe 'wrong-test-probe' must measure the same quantities at all steps: 'a' is missing at step 5",
        ),
        ("growing", "the probe 'wrong-test-probe' must measure 'a' in a constant shape: (0,) before, (5,) at step 5"),
    ],
)
def test_a_probe_that_measures_another_shape_is_named(gives, message):
    with pytest.raises(el.errors.TrialError, match=re.escape(message)):
        el.train(TRIAL, probes=[WrongProbe(gives=gives, every=5)])


def test_numbers_of_numpy_and_lists_of_any_kind_are_taken():
    def function(count: int, share: float, names: tuple[str, ...], values: list[float] | None = None) -> tuple:
        return count, share, names, values

    assert checked(function)(np.int64(3), np.float32(0.5), ("a",), np.arange(3)) == (3, 0.5, ("a",), [0, 1, 2])
    assert checked(function)(3.0, 1, ["a"]) == (3, 1, ["a"], None)


@pytest.mark.parametrize(
    ("model", "training", "sizes"),
    [
        (el.MLP(width=10**9), el.SGD(steps=5), "width=1000000000, batch_size=32"),
        (el.DeepMLP(widths=(10**6, 10**6)), el.SGD(steps=5), "widths=(1000000, 1000000), batch_size=32"),
        (el.ParityTransformer(width=10**6), el.SGD(steps=5), "width=1000000, heads=128"),
        (el.BooleanTransformer(width=10**6, heads=1), el.SGD(steps=5), "width=1000000, heads=1"),
        (el.models.RandomReLU(width=10**9), el.SGD(steps=5), "width=1000000000"),
        (el.MLP(width=4), el.SGD(steps=1, batch_size=2**31 - 1), f"width=4, batch_size={2**31 - 1}"),
    ],
)
def test_a_trial_whose_arrays_exceed_the_memory_is_refused_before_it_starts(monkeypatch, model, training, sizes):
    monkeypatch.setattr("elegans.training.engines.memory", lambda: 2**33)
    trial = el.Trial(task=el.SparseParity(n=50, k=3), regime=el.Online(), model=model, training=training)
    with pytest.raises(
        EngineError, match=r"a trial must fit into the memory of the machine: .* needed, 8 GiB available: "
    ) as raised:
        el.train(trial)
    assert sizes in str(raised.value)


@pytest.mark.parametrize(
    "model",
    [
        el.MLP(width=30),
        el.DeepMLP(widths=(30, 20)),
        el.models.RandomReLU(width=30),
        el.models.RandomFourier(width=30),
        el.models.GatedLinear(width=30),
        el.ParityTransformer(width=32, heads=2),
        el.BooleanTransformer(width=32, heads=2),
    ],
)
def test_a_model_counts_no_more_parameters_than_it_draws_and_most_of_them(model):
    task = el.SparseParity(n=10, k=2)
    drawn = el.random.Key(0, 0)
    arrays, left = [], [model.initialise(drawn, task)]
    while left:
        one = left.pop()
        left += one.values() if isinstance(one, dict) else []
        arrays += [] if isinstance(one, dict) else [np.asarray(one)]
    total = sum(array.size for array in arrays)
    assert 0.45 * total <= model.parameter_count(task) <= total


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (10**1000, "2^3321 or more"),
        (-(2**1000), "-2^1000"),
        ([10**5000], "a list"),
        (np.zeros((2, 3)), "a ndarray of shape (2, 3)"),
        ("x\ny", "'x\\ny'"),
        ("x" * 1000, "'" + "x" * 79 + "…"),
        (pd.DataFrame({"a": range(3)}), "a DataFrame of shape (3, 1)"),
        (TRIAL, "a Trial"),
    ],
)
def test_a_message_quotes_any_value_in_one_short_line(value, text):
    assert shown(value) == text
