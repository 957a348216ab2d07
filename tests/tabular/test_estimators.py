"""The estimators keep scikit-learn's conventions; the study's networks do what their options say (``classic``)."""

import inspect
import pickle
import re
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.datasets import load_iris, make_classification, make_regression
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import elegans as el
from elegans.tabular import (
    Settings,
    SparseMLP,
    SparseMLPClassifier,
    SparseMLPRegressor,
    StopSignal,
    descent,
    fit,
    init_networks,
    network,
)

ESTIMATORS = {"classifier": SparseMLPClassifier, "regressor": SparseMLPRegressor}


def make(estimator, **changes):
    defaults = {"width": 12, "depth": 2, "epochs": 4, "batch_size": 16, "learning_rate": 0.01, "random_state": 0}
    return ESTIMATORS[estimator].classic(**defaults | changes)


def table(estimator="classifier", rows=90, features=6, seed=0):
    if estimator == "regressor":
        return make_regression(rows, features, n_informative=4, noise=1, random_state=seed)
    return make_classification(rows, features, n_informative=4, n_redundant=0, random_state=seed)


@parametrize_with_checks(
    [
        make(estimator, width=32, batch_size=200, **options).set_params(
            epochs="auto", max_iter=20, weight_decay=3e-4, alpha=1.0, learning_rate=2e-3, learning_rate_init=0.01
        )
        for estimator, options in [
            ("classifier", {}),
            ("classifier", {"n_members": 2, "depth": 1, "init": "dense"}),
            ("regressor", {}),
            ("regressor", {"n_members": 2, "missing": "median", "missing_indicator": True}),
        ]
    ]
)
@pytest.mark.filterwarnings("ignore::sklearn.utils.estimator_checks.SkipTestWarning")
def test_scikit_learns_checks_pass(estimator, check):
    check(estimator)


def test_they_are_found_at_the_top():
    assert el.SparseMLPClassifier is SparseMLPClassifier
    assert el.SparseMLPRegressor is SparseMLPRegressor
    assert el.tabular.SparseMLPClassifier is SparseMLPClassifier


def test_an_interaction_that_no_linear_model_sees_is_learned():
    random = np.random.default_rng(0)
    X = random.normal(size=(3000, 10))
    y = X[:, 3] * X[:, 7] > 0
    model = SparseMLPClassifier.classic(width=100, epochs=30, random_state=0).fit(X[:2000], y[:2000])
    assert model.score(X[2000:], y[2000:]) > 0.9
    strongest = np.argsort(model.feature_importances_)[-2:]
    assert set(strongest) == {3, 7}
    assert model.feature_importances_.sum() == pytest.approx(1)


def test_several_classes_and_names_of_classes():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    model = make("classifier", epochs=40).fit(X, names)
    assert model.classes_.tolist() == ["setosa", "versicolor", "virginica"]
    assert model.score(X, names) > 0.9
    np.testing.assert_allclose(np.exp(model.decision_function(X)), model.predict_proba(X), rtol=1e-9)


def test_an_ensemble_predicts_the_average_of_its_members():
    X, y = table()
    ensemble = make("classifier", n_members=3).fit(X, y)
    networks = ensemble.networks_
    Z = StandardScaler().fit_transform(X)
    alone = [fit(Z, y, networks.settings, [seed]) for seed in networks.seeds]
    probability = np.mean([1 / (1 + np.exp(-each.outputs(Z)[0, :, 0].astype(float))) for each in alone], axis=0)
    np.testing.assert_allclose(ensemble.predict_proba(X)[:, 1], probability, atol=1e-4)
    np.testing.assert_allclose(ensemble.decision_function(X), np.log(probability / (1 - probability)), atol=1e-3)

    X, y = table("regressor")
    ensemble = make("regressor", n_members=3).fit(X, y)
    outputs = ensemble.networks_.outputs(StandardScaler().fit_transform(X))[:, :, 0]
    np.testing.assert_allclose(ensemble.predict(X), outputs.mean(axis=0) * y.std() + y.mean(), rtol=1e-3, atol=1e-2)


def test_the_first_members_are_the_same_in_a_larger_ensemble():
    X, y = table()
    small, large = (make("classifier", n_members=count).fit(X, y).networks_ for count in (1, 3))
    assert large.seeds[:1] == small.seeds
    np.testing.assert_allclose(large.layers[0][0], small.layers[0][0], atol=1e-5)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("state", [int, np.random.RandomState])
def test_random_states_repeat_a_fit(estimator, state):
    X, y = table(estimator)
    first = make(estimator, random_state=state(3)).fit(X, y)
    again = make(estimator, random_state=3).fit(X, y)
    other = make(estimator, random_state=4).fit(X, y)
    np.testing.assert_array_equal(first.predict(X), again.predict(X))
    assert first.loss_curve_ == again.loss_curve_
    assert first.loss_curve_ != other.loss_curve_


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_row_of_weight_three_counts_as_three_rows(estimator):
    X, y = table(estimator)
    weights = np.arange(len(X)) % 4
    repeated = np.repeat(np.arange(len(X)), weights)
    model = make(estimator, batch_size=1000)
    weighted = clone(model).fit(X, y, sample_weight=weights).predict(X)
    np.testing.assert_allclose(weighted, clone(model).fit(X[repeated], y[repeated]).predict(X), rtol=1e-7)


def test_balanced_classes_are_weights_of_rows():
    X, y = table()
    keep = np.flatnonzero((y == 0) | (np.arange(len(y)) % 5 == 0))
    X, y = X[keep], y[keep]
    weights = len(y) / (2 * np.bincount(y))
    model = make("classifier")
    by_row = clone(model).fit(X, y, sample_weight=weights[y]).predict_proba(X)
    for class_weight in ("balanced", dict(enumerate(weights))):
        by_class = clone(model).set_params(class_weight=class_weight).fit(X, y)
        np.testing.assert_allclose(by_class.predict_proba(X), by_row, rtol=1e-7)
    assert clone(model).set_params(class_weight={1: 100}).fit(X, y).predict(X).mean() > y.mean()


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_early_stopping_returns_to_the_best_epoch_on_rows_held_out(estimator):
    X, y = table(estimator)
    model = make(estimator, early_stopping=True, n_iter_no_change=3, epochs=200, learning_rate=0.1)
    model.fit(X, y)
    curve = model.validation_curve_
    assert model.n_iter_ == len(curve) == len(model.loss_curve_) == int(np.argmin(curve)) + 1 + 3 < 200
    assert model.networks_.epochs[0] == int(np.argmin(curve)) + 1


def test_a_validation_set_is_watched_and_takes_the_place_of_rows_held_out():
    X, y = table()
    given = X[60:], y[60:], np.arange(30.0)
    model = make("classifier", epochs=12, learning_rate=0.05, n_iter_no_change=100)
    watched = clone(model).set_params(early_stopping=False).fit(X[:60], y[:60], validation=given)
    alone = clone(model).fit(X[:60], y[:60])
    np.testing.assert_array_equal(watched.predict_proba(X), alone.predict_proba(X))
    assert len(watched.validation_curve_) == 12
    stopped = clone(model).fit(X[:60], y[:60], validation=given)
    np.testing.assert_allclose(stopped.validation_curve_, watched.validation_curve_)
    p = np.clip(stopped.predict_proba(given[0])[:, 1], 1e-12, 1 - 1e-12)
    loss = np.average(-np.log(np.where(given[1] == 1, p, 1 - p)), weights=given[2])
    assert loss == pytest.approx(min(watched.validation_curve_), rel=1e-4)


@pytest.mark.parametrize(("rows", "stops"), [(999, False), (1000, True)])
def test_early_stopping_is_automatic_from_1000_rows_on(rows, stops):
    X, y = table(rows=rows)
    assert bool(make("classifier", epochs=2, batch_size=256).fit(X, y).validation_curve_) == stops


@pytest.mark.parametrize(("rows", "dtype"), [(999, "float64"), (1000, "float32")])
def test_arithmetic_is_single_from_1000_rows_on_or_as_asked_for(rows, dtype):
    X, y = table(rows=rows)
    model = make("classifier", epochs=1, batch_size=256, early_stopping=False)
    assert model.fit(X, y).networks_.layers[0].dtype == dtype
    assert model.set_params(dtype="float64").fit(X, y).networks_.layers[0].dtype == "float64"
    assert model.set_params(dtype="float32").fit(X, y).networks_.layers[0].dtype == "float32"


def test_rows_are_held_out_of_each_class_alike():
    X, y = table(rows=200)
    y = (np.arange(200) % 10 == 0).astype(int)
    model = make("classifier", early_stopping=True, validation_fraction=0.25).fit(X, y)
    train, test = model._hold_out(y)
    assert sorted([*train, *test]) == list(range(200))
    assert np.bincount(y[test]).tolist() == [45, 5]


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("members", [1, 2])
def test_calls_of_partial_fit_are_the_epochs_of_fit(estimator, members):
    X, y = table(estimator)
    whole = make(estimator, epochs=3, n_members=members).fit(X, y)
    parts = make(estimator, n_members=members)
    for _ in range(3):
        parts.partial_fit(X, y, **({"classes": [0, 1]} if estimator == "classifier" else {}))
    np.testing.assert_array_equal(parts.predict(X), whole.predict(X))
    assert parts.loss_curve_ == whole.loss_curve_
    assert parts.n_iter_ == 3


def test_partial_fit_takes_batches_that_lack_a_class_or_vary_in_size():
    X, y = table()
    model = make("classifier")
    model.partial_fit(X[y == 0], y[y == 0], classes=[0, 1, 5])
    model.partial_fit(X[y == 1][:7], y[y == 1][:7])
    assert model.predict_proba(X).shape == (len(X), 3)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_warm_start_goes_on(estimator):
    X, y = table(estimator)
    whole = make(estimator, epochs=7).fit(X, y)
    parts = make(estimator, epochs=3, warm_start=True).fit(X, y)
    parts.set_params(epochs=4).fit(X, y)
    np.testing.assert_array_equal(parts.predict(X), whole.predict(X))
    assert parts.n_iter_ == 7
    with pytest.raises(ValueError, match="hidden must be the same as in the training that is continued"):
        parts.set_params(width=5).fit(X, y)


def test_a_warm_start_refuses_other_classes():
    X, y = table()
    model = make("classifier", warm_start=True).fit(X, y)
    with pytest.raises(ValueError, match="warm_start can only be used where `y` has the same classes"):
        model.fit(X, y + 1)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_time_limit_ends_training(estimator):
    X, y = table(estimator)
    model = make(estimator, epochs=10**9, time_limit=0.05).fit(X, y)
    assert model.n_iter_ < 10**9
    assert model.predict(X).shape == y.shape
    assert clone(model).set_params(time_limit=1e-9).fit(X, y).n_iter_ == 0


@pytest.mark.parametrize("members", [1, 2])
def test_ctrl_c_returns_the_model_so_far_with_a_warning(monkeypatch, members):
    X, y = table()
    model = make("classifier", epochs=10, n_members=members, verbose=True)
    monkeypatch.setattr(model, "_report", lambda number, epochs, seconds: interrupt(number), raising=False)

    def interrupt(number):
        if number == 3:
            raise KeyboardInterrupt

    with pytest.warns(UserWarning, match="Training interrupted by user"):
        model.fit(X, y)
    assert model.n_iter_ == 3
    expected = make("classifier", epochs=3, n_members=members).fit(X, y)
    np.testing.assert_array_equal(model.predict_proba(X), expected.predict_proba(X))


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_pickled_estimator_predicts_alike_and_goes_on(estimator):
    X, y = table(estimator)
    model = make(estimator, n_members=2, missing="mean").fit(X, y)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict(X), model.predict(X))
    np.testing.assert_array_equal(copy.partial_fit(X, y).predict(X), model.partial_fit(X, y).predict(X))


@pytest.mark.parametrize("missing", ["mean", "median", "most_frequent"])
def test_missing_values_are_replaced_by_the_training_rows_statistic(missing):
    X, y = table()
    X = X.round(1)
    holes = X.copy()
    holes[::7, 2] = np.nan
    rest = holes[~np.isnan(holes[:, 2]), 2]
    values, counts = np.unique(rest, return_counts=True)
    filled = holes.copy()
    filled[::7, 2] = {"mean": rest.mean(), "median": np.median(rest), "most_frequent": values[counts.argmax()]}[missing]
    model = make("classifier", missing=missing).fit(holes, y)
    np.testing.assert_allclose(
        model.predict_proba(holes), make("classifier").fit(filled, y).predict_proba(filled), rtol=1e-9
    )
    assert model.__sklearn_tags__().input_tags.allow_nan


def test_an_indicator_lets_what_is_missing_be_learned():
    random = np.random.default_rng(0)
    X = random.normal(size=(600, 4))
    y = random.permutation(np.arange(600) % 2)
    X[y == 1, 2] = np.nan
    model = make("classifier", missing="mean", missing_indicator=True, epochs=20).fit(X[:400], y[:400])
    assert model.score(X[400:], y[400:]) == 1
    assert model.feature_importances_.shape == (4,)
    assert model.feature_importances_.argmax() == 2


def test_units_of_features_matter_neither_to_predictions_nor_to_importances():
    X, y = table()
    units = np.array([1e-3, 1, 1e4, 1, 1e-2, 7])
    model = make("classifier")
    plain, scaled = clone(model).fit(X, y), clone(model).fit(X * units + 5, y)
    np.testing.assert_allclose(plain.predict_proba(X), scaled.predict_proba(X * units + 5), rtol=1e-6)
    np.testing.assert_allclose(plain.feature_importances_, scaled.feature_importances_, rtol=1e-6)
    by_hand = clone(model).set_params(standardise=False)
    Z = StandardScaler().fit_transform(X)
    np.testing.assert_allclose(by_hand.fit(Z, y).predict_proba(Z), plain.predict_proba(X), rtol=1e-9)
    raw = clone(by_hand).set_params(learning_rate=1e-12)
    with pytest.warns(ConvergenceWarning, match="or take standardise=True"):
        raw.fit(X * units, y)
    assert raw.feature_importances_[2] > 100 * raw.feature_importances_[0]


def test_data_frames_bring_names_that_are_checked():
    X, y = table()
    frame = pd.DataFrame(X, columns=list("abcdef"))
    model = make("classifier").fit(frame, y)
    assert model.feature_names_in_.tolist() == list("abcdef")
    with pytest.raises(ValueError, match="The feature names should match those that were passed during fit"):
        model.predict(frame.rename(columns={"a": "z"}))
    with pytest.raises(ValueError, match="Feature names must be in the same order as they were in fit"):
        model.predict(frame[list("bacdef")])


def test_several_targets_are_predicted_at_once():
    X, y = make_regression(90, 6, n_targets=2, random_state=0)
    model = make("regressor", width=60, epochs=60).fit(X, y)
    assert model.predict(X).shape == (90, 2)
    assert model.score(X, y) > 0.9


def test_they_work_in_pipelines_and_cross_validation():
    X, y = table(rows=200)
    pipeline = make_pipeline(StandardScaler(), make("classifier", width=50, epochs=30))
    assert cross_val_score(pipeline, X, y, cv=3).mean() > 0.7


def test_verbose_prints_a_line_an_epoch(capsys):
    X, y = table()
    make("classifier", verbose=True, early_stopping=True, epochs=3).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == [f"[SparseMLPClassifier] epoch {k} of 3" for k in (1, 2, 3)]
    assert "validation loss" in lines[0]


def test_hidden_layers_may_differ_in_width():
    X, y = table()
    layers = make("classifier", hidden_layer_sizes=(9, 4, 3)).fit(X, y).networks_.layers
    assert [layer.shape[1:] for layer in layers] == [(9, 7), (4, 10), (3, 5), (1, 4)]


@pytest.mark.parametrize(
    ("estimator", "options", "data", "message"),
    [
        ("classifier", {}, {"y": np.ones(90)}, "at least 2 classes in the data, but the data contains only one class"),
        ("regressor", {}, {"y": np.ones(90)}, "target 0 is constant: all 90 values are 1.0"),
        ("classifier", {"early_stopping": True}, {"rows": 12}, "The validation set is too small"),
        ("regressor", {"early_stopping": True}, {"rows": 12}, "The validation set is too small"),
        ("classifier", {"init": "sparse:7"}, {}, "nonzeros=7, n_features=6"),
        ("classifier", {"init": "sprase:2"}, {}, "did you mean"),
        ("classifier", {}, {"X": np.nan}, 'Input X contains NaN. Choose missing="auto"'),
        ("regressor", {}, {"X": np.nan}, 'Input X contains NaN. Choose missing="auto"'),
        ("regressor", {}, {"X": np.inf}, "Input X contains infinity"),
        ("classifier", {"missing": "mean"}, {"X": np.inf}, "Input X contains infinity"),
        (
            "classifier",
            {"standardise": False, "dtype": "float32"},
            {"X": 1e300},
            "a value too large for dtype('float32')",
        ),
        ("classifier", {"width": 0}, {}, "The 'width' parameter of SparseMLPClassifier must be an int in"),
        (
            "classifier",
            {"width": 2**31},
            {},
            "The 'width' parameter of SparseMLPClassifier must be an int in the range",
        ),
        ("classifier", {"width": 10**9}, {}, "networks must fit into the memory of the machine: "),
        (
            "classifier",
            {"depth": 10**30},
            {},
            "The 'depth' parameter of SparseMLPClassifier must be an int in the range",
        ),
        ("regressor", {"batch_size": 10**30}, {}, "The 'batch_size' parameter of SparseMLPRegressor must be an int in"),
        (
            "regressor",
            {"epochs": 10**30},
            {},
            "The 'epochs' parameter of SparseMLPRegressor must be an int in the range",
        ),
        (
            "regressor",
            {"n_members": 10**9},
            {},
            "The 'n_members' parameter of SparseMLPRegressor must be an int in the",
        ),
        ("regressor", {"hidden_layer_sizes": [1.5]}, {}, "hidden must be whole numbers: hidden="),
        ("classifier", {"class_weight": "blanced"}, {}, "The 'class_weight' parameter of SparseMLPClassifier must be"),
        ("classifier", {}, {"y": np.linspace(0, 1, 90)}, "Unknown label type: continuous"),
        ("classifier", {}, {"validation": 3}, "validation must be (X, y) or (X, y, sample_weight)"),
        ("classifier", {}, {"validation": (np.zeros((2, 6)), [0, 7])}, "`y` has classes not in `self.classes_`"),
        ("classifier", {}, {"validation": (np.zeros((2, 5)), [0, 1])}, "X has 5 features, but SparseMLPClassifier is"),
        ("regressor", {"learning_rate": 1e30, "optimiser": "sgd"}, {}, "Solver produced non-finite parameter weights"),
        (
            "classifier",
            {"learning_rate": 10**400},
            {},
            "The 'learning_rate' parameter of SparseMLPClassifier must be a float in",
        ),
        (
            "regressor",
            {"weight_decay": 10**400},
            {},
            "The 'weight_decay' parameter of SparseMLPRegressor must be a float",
        ),
        (
            "classifier",
            {"time_limit": 10**400},
            {},
            "The 'time_limit' parameter of SparseMLPClassifier must be a float in",
        ),
        ("classifier", {"width": True}, {}, "The 'width' parameter of SparseMLPClassifier must be an int in the range"),
        ("regressor", {"hidden_layer_sizes": [3, [4]]}, {}, "hidden must be whole numbers: hidden="),
        ("regressor", {"hidden_layer_sizes": [True]}, {}, "hidden must be whole numbers: hidden="),
        (
            "classifier",
            {"class_weight": {0: 10**400, 1: 1}},
            {},
            "class_weight must hold finite numbers of at least 0: 2^",
        ),
        (
            "classifier",
            {"class_weight": {0: "1", 1: 1}},
            {},
            "class_weight must hold finite numbers of at least 0: '1'",
        ),
        ("regressor", {}, {"y": ["a", "b", "c"] * 30}, "could not convert string to float: "),
        ("regressor", {}, {"y": np.array([None, 1.0, 2.0] * 30, object)}, "Input y contains NaN"),
        ("regressor", {}, {"y": [10**400, 1, 2] * 30}, "must hold numbers of at most 1.8e+308"),
        ("regressor", {}, {"y": np.arange(90).astype("M8[D]")}, "Input y must hold numbers, not dates or durations"),
        ("regressor", {}, {"y": np.arange(90) * 1e300}, "Input y contains a value too large to be standardised"),
        ("regressor", {}, {"y": np.r_[np.full(45, -1.7e308), np.full(45, 1.7e308)]}, "too large to be standardised"),
        ("regressor", {}, {"y": scipy.sparse.csr_matrix(np.eye(90, 2))}, "dense data is required"),
        (
            "classifier",
            {},
            {"table": np.full((90, 2), np.datetime64("NaT"))},
            "Input X must hold numbers, not dates or",
        ),
        (
            "classifier",
            {},
            {"table": pd.DataFrame({"a": np.arange(90.0), "b": pd.date_range("2020", periods=90)})},
            "Input X must hold numbers, not dates or durations: datetime64[",
        ),
        ("classifier", {}, {"table": [[10**400]] * 90}, "must hold numbers of at most 1.8e+308"),
        (
            "classifier",
            {},
            {"table": scipy.sparse.csr_matrix((90, 10**9))},
            "a sparse X is made dense, and must fit into the",
        ),
        ("regressor", {}, {"table": np.arange(180).reshape(90, 2) * 1e160}, "Input X contains a value too large to be"),
        ("classifier", {}, {"weights": np.nan}, "Input sample_weight contains NaN"),
        ("regressor", {}, {"weights": [10**400] * 90}, "Input sample_weight must hold numbers of at most"),
        (
            "regressor",
            {},
            {"weights": np.arange(90).astype("m8[s]")},
            "Input sample_weight must hold numbers, not dates",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_bad_data_and_settings_are_refused(estimator, options, data, message):
    X, y = table(estimator)
    if "X" in data:
        X[3, 2] = data["X"]
    y = data.get("y", y)
    rows = data.get("rows", len(X))
    X = data.get("table", X[:rows])
    extra = {"validation": data["validation"]} if "validation" in data else {}
    with pytest.raises((ValueError, TypeError), match=re.escape(message)):
        make(estimator, **options).fit(X, y[:rows], data.get("weights"), **extra)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epochs": "x"}, "epochs must be a whole number: epochs='x'"),
        ({"epochs": 10**30}, f"epochs must be at least 0 and below 2^31: epochs={10**30}"),
        ({"batch_size": True}, "batch_size must be a whole number: batch_size=True"),
        ({"learning_rate": None}, "learning_rate must be a number: learning_rate=None"),
        ({"hidden": (2**31,)}, f"hidden must be at most 100 widths below 2^31: hidden=({2**31},)"),
        ({"hidden": 5}, "hidden must be whole numbers: hidden=5"),
        ({"hidden": b"ab"}, "hidden must be whole numbers: hidden=b'ab'"),
        ({"learning_rate": 10**400}, "learning_rate must be above 0 and finite: learning_rate=2^"),
        (
            {"dtype": np.array(["float32", "float64"])},
            "dtype must be one of float32, float64: dtype=a ndarray of shape (2,)",
        ),
    ],
)
def test_settings_of_another_type_or_size_are_refused(changes, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        Settings(**changes)


def test_partial_fit_refuses_what_it_cannot_know():
    X, y = table()
    with pytest.raises(ValueError, match=r"classes must be passed on the first call to partial_fit\."):
        make("classifier").partial_fit(X, y)
    with pytest.raises(ValueError, match="class_weight 'balanced' is not supported for partial_fit"):
        make("classifier", class_weight="balanced").partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="partial_fit does not support early_stopping=True"):
        make("regressor", early_stopping=True).partial_fit(X, y)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_an_estimator_that_was_not_fitted_says_so(estimator):
    with pytest.raises(NotFittedError):
        make(estimator).predict(np.zeros((2, 6)))


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_help_documents_every_parameter_and_attribute(estimator):
    text = inspect.getdoc(ESTIMATORS[estimator])
    arguments, attributes = text.split("\nArgs:\n")[1].split("\nAttributes:\n")
    for name in make(estimator).get_params():
        assert re.search(rf"^    {name}: [\w`]", arguments, re.MULTILINE), name
    for name in ("networks_", "n_iter_", "loss_curve_", "feature_importances_", "n_features_in_"):
        assert re.search(rf"^    {name}: \w", attributes, re.MULTILINE), name


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_one_feature_is_enough_for_the_default_initialisation(estimator):
    X = np.linspace(-2, 2, 200)[:, None]
    y = X[:, 0] > 0 if estimator == "classifier" else np.abs(X[:, 0])
    model = make(estimator, width=50, epochs=30)
    assert model.fit(X, y).score(X, y) > 0.9
    assert model.feature_importances_.tolist() == [1]
    assert (model.networks_.layers[0][0, :, 0] != 0).all()


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("standardise", [True, False])
def test_constant_columns_have_no_importance(estimator, standardise):
    X, y = table(estimator)
    X[:, 1], X[:, 4] = 0.1, 7
    model = make(estimator, standardise=standardise, learning_rate=1e-12).fit(X, y)
    importances = model.feature_importances_
    assert np.flatnonzero(importances == 0).tolist() == [1, 4]
    assert importances.sum() == pytest.approx(1)
    alone = make(estimator, standardise=standardise).fit(X[:, 1:2], y)
    assert alone.feature_importances_.tolist() == [0]
    assert np.ptp(alone.predict(X[:, 1:2])) == 0


def test_a_class_with_a_single_row_is_trained_on_and_never_held_out():
    X, _ = table(rows=200)
    y = np.r_[np.arange(199) % 5, 5]
    model = make("classifier", early_stopping=True).fit(X, y)
    assert model.classes_.tolist() == [0, 1, 2, 3, 4, 5]
    train, test = model._hold_out(y)
    assert 199 in train
    assert sorted(set(y[test])) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(("classes", "stops"), [(100, True), (101, False)])
def test_early_stopping_is_automatic_only_where_every_class_can_have_a_row_held_out(classes, stops):
    X = np.random.default_rng(0).normal(size=(1000, 3))
    model = make("classifier", epochs=1, batch_size=256).fit(X, np.arange(1000) % classes)
    assert bool(model.validation_curve_) == stops


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("kind", [scipy.sparse.csr_matrix, scipy.sparse.csc_array, scipy.sparse.coo_array])
def test_sparse_matrices_are_rows_like_any_others(estimator, kind):
    X, y = table(estimator)
    X[X < 0] = 0
    dense = make(estimator).fit(X, y)
    model = make(estimator).fit(kind(X), y, validation=(kind(X), y))
    np.testing.assert_array_equal(make(estimator).fit(kind(X), y).predict(kind(X)), dense.predict(X))
    np.testing.assert_array_equal(make(estimator).partial_fit(kind(X), y, *_classes(estimator)).n_iter_, 1)
    assert model.__sklearn_tags__().input_tags.sparse


def _classes(estimator):
    return [[0, 1]] if estimator == "classifier" else []


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("options", [{}, {"early_stopping": True}, {"n_members": 2}])
def test_a_training_that_diverges_warns(estimator, options):
    X, y = table(estimator)
    model = make(estimator, learning_rate=1e30, weight_decay=0, **options)
    with pytest.warns(ConvergenceWarning, match=r"training diverged: the mean loss is .* lower learning_rate=1e\+30"):
        model.fit(X, y)
    with pytest.warns(ConvergenceWarning, match="training diverged"):
        make(estimator, learning_rate=1e30, weight_decay=0).partial_fit(X, y, *_classes(estimator))


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_training_that_returns_to_an_epoch_before_it_diverged_does_not_warn(estimator):
    X, y = table(estimator, rows=400)
    good = make(estimator, epochs=20, early_stopping=True, warm_start=True, n_iter_no_change=3).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        good.set_params(learning_rate=0.3).fit(X, y)


def test_a_small_product_is_computed_by_one_thread_and_a_large_one_by_all():
    seen = []
    for operations in (descent._LARGE_PRODUCT - 1, descent._LARGE_PRODUCT):
        seen += descent.share_out(lambda _: descent._threads(), [0], operations)
    assert seen == [1, descent._threads()]


@pytest.mark.parametrize(("width", "threads"), [(300, 1), (1000, None)])
def test_networks_choose_their_threads_by_the_size_of_their_products(monkeypatch, width, threads):
    seen = []
    monkeypatch.setattr(network, "epoch", lambda *_: (seen.append(descent._threads()), (0.0, 0, 0))[1])
    settings = Settings(hidden=(width, width), epochs=1)
    init_networks(settings, [0], 6).train(np.zeros((300, 6), np.float32), np.zeros(300))
    assert seen == [threads or descent._threads()]


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_fit_that_fails_leaves_an_estimator_that_is_not_fitted(estimator):
    X, y = table(estimator)
    model = make(estimator).fit(X, y)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(X * np.nan, y)
    with pytest.raises(NotFittedError):
        model.predict(X)
    with pytest.raises(ValueError, match="non-finite"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        model.set_params(learning_rate=1e30, optimiser="sgd").fit(X, y)
    with pytest.raises(NotFittedError):
        model.predict(X)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_first_epoch_that_diverges_is_refused_under_early_stopping_too(estimator):
    X, y = table(estimator)
    with pytest.raises(ValueError, match="Solver produced non-finite parameter weights"):
        make(estimator, learning_rate=1e200, optimiser="sgd", early_stopping=True, validation_fraction=0.2).fit(X, y)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_how_rows_are_prepared_follows_from_the_training_and_not_from_later_settings(estimator):
    X, y = table(estimator)
    model = make(estimator, warm_start=True).fit(X, y)
    expected = model.predict(X)
    model.set_params(standardise=False, missing="mean")
    np.testing.assert_array_equal(model.predict(X), expected)
    with pytest.raises(ValueError, match="Input X contains NaN"):
        model.predict(X * np.nan)
    with pytest.raises(ValueError, match="missing must be the same as in the training that is continued"):
        model.fit(X, y)
    with pytest.raises(ValueError, match="standardise must be the same as in the training that is continued"):
        model.set_params(missing="error").fit(X, y)


def test_targets_of_every_type_and_order_of_memory_are_numbers():
    X, y = make_regression(90, 6, n_targets=2, random_state=0)
    expected = make("regressor").partial_fit(X, y).predict(X)
    frame = pd.DataFrame({"a": y[:, 0], "b": y[:, 1]})  # column by column in memory
    np.testing.assert_array_equal(make("regressor").partial_fit(X, frame).predict(X), expected)
    truths = y[:, 0] > 0
    numbers = make("regressor").fit(X, truths.astype(float)).predict(X)
    np.testing.assert_array_equal(make("regressor").fit(X, truths).predict(X), numbers)


def test_what_estimators_share_is_no_estimator_itself():
    with pytest.raises(TypeError, match="Can't instantiate abstract class SparseMLP"):
        SparseMLP()


def test_limits_of_time_are_numbers_of_any_type_and_size():
    X, y = table()
    assert make("classifier", time_limit=np.float32(50)).fit(X, y).n_iter_ == 4
    assert not StopSignal(10**400)
    for seconds in (float("nan"), "3"):
        with pytest.raises(ValueError, match="seconds must be a number: seconds="):
            StopSignal(seconds)


def test_a_stop_without_limit_has_none():
    assert StopSignal().seconds is None
    assert not StopSignal()


@pytest.mark.parametrize("standardise", [True, False])
@pytest.mark.parametrize("estimator", ["classifier", "regressor"])
def test_features_that_vanish_in_rounding_are_warned_of_once(estimator, standardise):
    X = np.random.default_rng(0).normal(size=(60, 3)) * [1e-300, 1.0, 1e-200]
    y = (X[:, 1] > 0).astype(int)
    with pytest.warns(UserWarning, match="2 of 3 features of X vary by so little") as said:
        make(estimator, epochs=2, standardise=standardise).fit(X, y)
    assert len(said) == 1


def test_more_members_than_the_limit_are_refused():
    with pytest.raises(ValueError, match=r"The 'n_members' parameter .* in the range \[1, 1000\]. Got 100000 instead"):
        make("classifier", n_members=100_000).fit([[0.0], [1.0]], [0, 1])
