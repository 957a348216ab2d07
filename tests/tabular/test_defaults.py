"""The estimators without settings: frames with categories and gaps, many classes, few rows, limits of time."""

import json
import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris, make_classification, make_friedman1, make_regression
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestRegressor
from sklearn.exceptions import NotFittedError
from sklearn.metrics import recall_score
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.utils.estimator_checks import parametrize_with_checks

from elegans.tabular import SharedNetworks, SparseMLPClassifier, SparseMLPRegressor, fit
from elegans.tabular.datasets import is_available, load_table
from elegans.tabular.shared import automatic_dropout, automatic_epochs

ESTIMATORS = {"classifier": SparseMLPClassifier, "regressor": SparseMLPRegressor}
WEIGHTED = {
    f"check_sample_weight_equivalence_on_{kind}_data": "quantiles and the order of rows are those of the rows as given"
    for kind in ("dense", "sparse")
}


def small(estimator, **changes):
    options = {"width": 32, "n_members": 4, "epochs": 8, "random_state": 0}
    return ESTIMATORS[estimator](**options | changes)


def mixed(rows=300, seed=0):
    """Return a frame with numbers, gaps and categories, and what depends on them."""
    random = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "number": random.normal(size=rows),
            "gaps": np.where(random.uniform(size=rows) < 0.2, np.nan, random.normal(size=rows)),
            "town": pd.Categorical(random.choice(["Bern", "Rome", "Oslo"], rows)),
            "sex": random.choice(["f", "m"], rows),
            "shop": [f"shop {number}" for number in random.integers(0, 15, rows)],
            "flag": random.uniform(size=rows) < 0.5,
            "count": pd.array(random.integers(0, 9, rows), dtype="Int64"),
        }
    )
    frame.loc[::17, "sex"] = None
    frame.loc[::19, "count"] = pd.NA
    return frame, (frame["number"] > 0) ^ (frame["town"] == "Rome").to_numpy()


@pytest.mark.filterwarnings("ignore::sklearn.utils.estimator_checks.SkipTestWarning")
@parametrize_with_checks(
    [small(name, width=64, epochs="auto") for name in ESTIMATORS], expected_failed_checks=lambda _: WEIGHTED
)
def test_scikit_learns_checks_pass(estimator, check):
    check(estimator)


MANY_FITS = {
    "check_class_weight_classifiers", "check_classifiers_train", "check_estimator_sparse_array",
    "check_estimator_sparse_matrix",
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.utils.estimator_checks.SkipTestWarning")
@parametrize_with_checks([SparseMLPClassifier()], expected_failed_checks=lambda _: WEIGHTED)
def test_scikit_learns_checks_pass_with_all_defaults(estimator, check):
    if check.func.__name__ in MANY_FITS:
        pytest.skip("it fits many times: with fewer neurons only")
    check(estimator)


@pytest.mark.slow
def test_frames_with_categories_and_gaps_need_no_preparation():
    frame, y = mixed(800)
    model = SparseMLPClassifier(random_state=0).fit(frame[:600], y[:600])
    assert model.score(frame[600:], y[600:]) > 0.8
    assert model.feature_names_in_.tolist() == frame.columns.tolist()
    assert model.n_features_in_ == 7
    assert isinstance(model.networks_, SharedNetworks)
    assert set(np.argsort(model.feature_importances_)[-2:]) == {0, 2}
    tags = model.__sklearn_tags__().input_tags
    assert tags.categorical and tags.string and tags.allow_nan


def test_categories_are_matched_by_value_and_their_order_changes_no_bit():
    frame, y = mixed()
    expected = small("classifier").fit(frame, y).predict_proba(frame)
    towns = frame["town"]
    for other in (towns.cat.reorder_categories(["Rome", "Oslo", "Bern"]), towns.astype(object), towns.astype("string")):
        changed = frame.assign(town=other)
        np.testing.assert_array_equal(small("classifier").fit(changed, y).predict_proba(changed), expected)
    model = small("classifier").fit(frame, y)
    np.testing.assert_array_equal(model.predict_proba(frame.assign(town=towns.astype(object))), expected)


def test_unseen_levels_and_columns_without_any_value_have_finite_predictions():
    frame, y = mixed()
    model = small("classifier").fit(frame, y)
    new = frame.assign(town="Paris", shop="new", sex=None, gaps=np.nan, number=np.nan, count=pd.NA)
    assert np.isfinite(model.predict_proba(new)).all()
    empty = frame.assign(gaps=np.nan, town=None)
    assert np.isfinite(small("classifier").fit(empty, y).predict_proba(empty)).all()


def test_arrays_of_objects_have_numbers_and_categories():
    frame, y = mixed()
    array = frame[["number", "town", "sex"]].to_numpy(object)
    expected = (
        small("classifier").fit(frame[["number", "town", "sex"]], y).predict_proba(frame[["number", "town", "sex"]])
    )
    model = small("classifier").fit(array, y)
    np.testing.assert_array_equal(model.predict_proba(array), expected)
    np.testing.assert_array_equal(model.predict_proba(array.tolist()), expected)


@pytest.mark.parametrize("given", [[1], ["b"], [False, True, False]])
def test_columns_of_categories_may_be_given(given):
    random = np.random.default_rng(0)
    X = pd.DataFrame({"a": random.normal(size=200), "b": random.integers(0, 5, 200), "c": random.normal(size=200)})
    y = X["b"].isin([1, 3]).to_numpy()
    model = small("classifier", categorical_features=given).fit(X, y)
    text = X.assign(b=X["b"].astype(str).astype("category"))
    expected = small("classifier").fit(text, y).predict_proba(text)
    np.testing.assert_array_equal(model.predict_proba(X), expected)
    if given != ["b"]:
        array = small("classifier", categorical_features=given).fit(X.to_numpy(), y)
        np.testing.assert_array_equal(array.predict_proba(X.to_numpy()), expected)


@pytest.mark.parametrize("given", [[9], ["z"], [True], [1.5]])
def test_columns_of_categories_that_there_are_not_are_refused(given):
    with pytest.raises(ValueError, match="categorical_features must be names of columns, numbers from 0 to 1, or a"):
        small("classifier", categorical_features=given).fit([[0, 1], [2, 3]], [0, 1])


def test_categories_need_bins_and_dates_are_refused():
    frame, y = mixed()
    with pytest.raises(ValueError, match="could not convert string to float"):
        small("classifier", encoding="standard").fit(frame[["sex", "number"]], y)
    with pytest.raises(ValueError, match='Input X contains NaN. Choose missing="auto"'):
        small("classifier", missing="error").fit(frame[["sex"]], y)
    with pytest.raises(ValueError, match="Input X must hold numbers, not dates or durations"):
        small("classifier").fit(frame.assign(day=pd.Timestamp("2020-01-01")), y)


@pytest.mark.parametrize("missing", ["mean", "median", "most_frequent"])
@pytest.mark.parametrize("encoding", ["bins", "standard"])
def test_a_statistic_takes_the_place_of_missing_numbers(missing, encoding):
    X, y = make_classification(200, 5, random_state=0)
    holes = X.copy()
    holes[::6, 1] = np.nan
    filled = np.nan_to_num(holes, nan={"mean": np.nanmean, "median": np.nanmedian}.get(missing, np.nanmin)(holes[:, 1]))
    options = {"encoding": encoding, "missing": missing}
    probabilities = small("classifier", **options).fit(holes, y).predict_proba(holes)
    np.testing.assert_allclose(small("classifier", **options).fit(filled, y).predict_proba(filled), probabilities)
    marked = small("classifier", missing_indicator=True, **options).fit(holes, y)
    assert marked.feature_importances_.shape == (5,)


@pytest.mark.parametrize("encoding", ["bins", "standard"])
@pytest.mark.parametrize("shared", [True, False])
def test_a_column_that_is_missing_exactly_in_one_class_is_enough(encoding, shared):
    random = np.random.default_rng(0)
    X = random.normal(size=(600, 4))
    y = random.permutation(np.arange(600) % 2)
    X[y == 1, 2] = np.nan
    model = small("classifier", encoding=encoding, shared=shared, epochs=20).fit(X[:400], y[:400])
    assert model.score(X[400:], y[400:]) > 0.99
    assert model.feature_importances_.argmax() == 2


def test_rows_of_no_weight_change_no_bit():
    frame, y = mixed()
    weights = np.arange(300) % 3.0
    kept = weights > 0
    weighted = small("classifier").fit(frame, y, weights).predict_proba(frame)
    np.testing.assert_array_equal(
        small("classifier").fit(frame[kept], y[kept], weights[kept]).predict_proba(frame), weighted
    )


def test_balanced_weights_raise_the_recall_of_a_rare_class():
    X, y = make_classification(1500, 8, n_informative=4, weights=[0.98], flip_y=0, class_sep=0.6, random_state=0)
    recalls = [
        recall_score(y[1000:], small("classifier", class_weight=weight).fit(X[:1000], y[:1000]).predict(X[1000:]))
        for weight in (None, "balanced")
    ]
    assert recalls[1] > recalls[0] + 0.1


def test_a_hundred_classes_are_learned():
    random = np.random.default_rng(0)
    y = np.repeat(np.arange(100), 20)
    X = random.normal(size=(100, 6))[y] + 0.1 * random.normal(size=(2000, 6))
    model = small("classifier", width=64).fit(X, y)
    assert model.score(X, y) > 0.9
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)


@pytest.mark.slow
@pytest.mark.parametrize("rows", [2, 10, 50, 199])
def test_few_rows_are_enough_to_begin(rows):
    X = np.random.default_rng(0).normal(size=(rows, 3))
    y = np.r_[0, np.ones(rows - 1)]
    assert SparseMLPClassifier(random_state=0).fit(X, y).predict_proba(X).shape == (rows, 2)
    assert np.isfinite(SparseMLPRegressor(random_state=0).fit(X, X[:, 0]).predict(X)).all()


def test_the_number_of_epochs_follows_from_rows():
    numbers = [automatic_epochs(rows, 16) for rows in (2, 300, 999, 1000, 40_000, 50_000, 100_000, 10**7)]
    assert numbers == [230, 13, 12, 10, 10, 8, 4, 3]


def test_dropout_falls_as_rows_grow():
    assert [automatic_dropout(rows) for rows in (2, 500, 4000, 10**6)] == [0.5, 0.5, 0.1, 0.1]
    assert automatic_dropout(1414) == pytest.approx(0.3, abs=1e-3)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_pickled_estimator_predicts_alike_and_goes_on(estimator):
    frame, y = mixed()
    target = y if estimator == "classifier" else frame["number"]
    model = small(estimator).fit(frame, target)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict(frame), model.predict(frame))
    np.testing.assert_array_equal(
        copy.partial_fit(frame, target).predict(frame), model.partial_fit(frame, target).predict(frame)
    )


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_calls_of_partial_fit_are_the_epochs_of_a_warm_start_at_a_constant_rate(estimator):
    X, y = make_classification(120, 5, random_state=0)
    classes = [[0, 1]] if estimator == "classifier" else []
    parts = small(estimator)
    for _ in range(5):
        parts.partial_fit(X, y, *classes)
    whole = small(estimator, epochs=5, schedule="constant").fit(X, y)
    warm = small(estimator, epochs=3, warm_start=True).fit(X, y).set_params(epochs=2).fit(X, y)
    np.testing.assert_array_equal(parts.predict(X), whole.predict(X))
    np.testing.assert_array_equal(warm.predict(X), whole.predict(X))
    assert warm.n_iter_ == 5
    with pytest.raises(ValueError, match="n_bins must be the same as in the training that is continued"):
        warm.set_params(n_bins=7).fit(X, y)


def test_training_returns_to_the_last_best_epoch_on_validation_rows_after_all_epochs():
    X, y = make_classification(400, 8, flip_y=0.3, random_state=0)
    model = small("classifier", epochs=12, early_stopping=True, learning_rate=0.02).fit(X, y)
    curve = model.validation_curve_
    assert len(curve) == len(model.loss_curve_) == model.n_iter_ == 12
    given = small("classifier", epochs=12, learning_rate=0.02).fit(X[:300], y[:300], validation=(X[300:], y[300:]))
    p = np.clip(given.predict_proba(X[300:])[np.arange(100), y[300:]], 1e-12, 1)
    assert -np.log(p).mean() == pytest.approx(min(given.validation_curve_), rel=1e-6)
    watched = small("classifier", epochs=12, early_stopping=False, learning_rate=0.02)
    watched.fit(X[:300], y[:300], validation=(X[300:], y[300:]))
    np.testing.assert_allclose(watched.validation_curve_, given.validation_curve_)
    alone = small("classifier", epochs=12, learning_rate=0.02).fit(X[:300], y[:300])
    np.testing.assert_array_equal(alone.predict_proba(X), watched.predict_proba(X))
    assert not alone.validation_curve_


def test_ctrl_c_returns_the_networks_so_far_with_a_warning(monkeypatch):
    X, y = make_classification(200, 5, random_state=0)
    model = small("classifier", epochs=10, verbose=True)

    def interrupt(number, epochs, seconds):
        if number == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(model, "_report", interrupt, raising=False)
    with pytest.warns(UserWarning, match="Training interrupted by user"):
        model.fit(X, y)
    assert model.n_iter_ == 3
    assert np.isfinite(model.predict_proba(X)).all()


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_time_limit_ends_training_at_a_rate_of_zero(estimator):
    X, y = make_classification(400, 5, random_state=0)
    model = small(estimator, epochs=10**6, time_limit=0.5).fit(X, y)
    assert 0 < model.n_iter_ < 10**6
    assert model.networks_.rate < 0.3 * 2e-3  # a busy machine may lose the last steps
    assert small(estimator, time_limit=1e-9).fit(X, y).n_iter_ == 0


def test_verbose_prints_a_line_an_epoch(capsys):
    X, y = make_classification(100, 5, random_state=0)
    small("classifier", verbose=True, epochs=2).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == [f"[SparseMLPClassifier] epoch {k} of 2" for k in (1, 2)]


def test_predictions_follow_the_target_in_units_and_offset():
    X, y = make_regression(300, 6, noise=3, random_state=0)
    plain = small("regressor").fit(X, y).predict(X)
    for change in (lambda y: 1e6 * y, lambda y: y + 1e6):
        model = small("regressor").fit(X, change(y))
        np.testing.assert_allclose(model.predict(X), change(plain), rtol=1e-5, atol=1e-5 * np.ptp(y))


def test_predictions_stay_within_the_training_targets_unless_told_otherwise():
    X, y = make_regression(300, 4, random_state=0)
    far = 50 * X
    model = small("regressor", epochs=30, dropout=0.0).fit(X, y)
    assert y.min() <= model.predict(far).min() and model.predict(far).max() <= y.max()
    assert np.ptp(model.set_params(clamp=False).predict(far)) > np.ptp(y)


def test_several_targets_share_the_trunk():
    X, y = make_regression(400, 6, n_targets=2, random_state=0)
    model = small("regressor", width=64, epochs=30).fit(X, y)
    assert model.predict(X).shape == (400, 2)
    assert model.score(X, y) > 0.9
    assert model.networks_.heads == 2


@pytest.mark.slow
def test_a_constant_column_has_no_importance_and_the_two_of_an_interaction_lead_in_both_kinds():
    random = np.random.default_rng(0)
    X = pd.DataFrame(random.normal(size=(1500, 6)), columns=list("abcdef")).assign(d=7.0)
    y = (X["b"] > 0.2) ^ (X["e"] > -0.1)
    model = SparseMLPClassifier(random_state=0, epochs=20).fit(X[:1200], y[:1200])
    assert model.feature_importances_.sum() == pytest.approx(1)
    assert model.feature_importances_[3] == 0
    assert set(np.argsort(model.feature_importances_)[-2:]) == {1, 4}
    assert (model.member_importances_.argmax(axis=1) % 3 == 1).all()
    table = model.permutation_importances(X[1200:], y[1200:], n_repeats=2)
    assert set(table.index[:2]) == {"b", "e"}
    assert table.loc["d", "mean"] == 0


def test_settings_go_by_scikit_learns_names_too():
    X, y = make_classification(150, 5, random_state=0)
    ours = {"weight_decay": 0.1, "optimiser": "sgd", "epochs": 3, "learning_rate": 0.05, "standardise": False}
    theirs = {"alpha": 0.1, "optimizer": "sgd", "max_iter": 3, "learning_rate_init": 0.05, "standardize": False}
    base = SparseMLPClassifier(width=16, n_members=2, random_state=0)
    expected = clone(base).set_params(**ours).fit(X, y).predict_proba(X)
    spelled = clone(base).set_params(**theirs)
    assert spelled.get_params()["alpha"] == clone(spelled).alpha == 0.1
    np.testing.assert_array_equal(spelled.fit(X, y).predict_proba(X), expected)
    clone(base).set_params(alpha=0.1, weight_decay=0.1).fit(X, y)
    for name, other in zip(ours, theirs, strict=True):
        both = clone(base).set_params(**{name: ours[name], other: {"sgd": "adamw", False: True}.get(ours[name], 7)})
        with pytest.raises(ValueError, match=re.escape(f"{name} and {other} are one setting: {name}=")):
            both.fit(X, y)


def test_a_grid_search_goes_over_scikit_learns_names():
    X, y = make_classification(150, 5, random_state=0)
    grid = {"alpha": [0.0, 0.1], "optimizer": ["adamw", "sgd"]}
    search = GridSearchCV(SparseMLPClassifier(width=16, n_members=2, max_iter=2, random_state=0), grid, cv=2).fit(X, y)
    assert search.best_params_.keys() == grid.keys()


def test_the_first_members_are_drawn_alike_in_a_larger_ensemble():
    X, y = make_classification(150, 5, random_state=0)
    few, many = (small("classifier", n_members=count, time_limit=1e-9).fit(X, y).networks_.parts() for count in (2, 5))
    for name in ("first", "weights1", "biases0"):
        np.testing.assert_array_equal(few[name], many[name])
    for name in ("heads", "factors", "head_biases"):
        np.testing.assert_array_equal(few[name], many[name][:2])


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_random_states_repeat_a_fit_to_the_bit(estimator):
    X, y = make_classification(1100, 5, random_state=0)
    models = [small(estimator, epochs=2, random_state=state).fit(X, y) for state in (3, 3, 4)]
    assert models[0].loss_curve_ == models[1].loss_curve_ != models[2].loss_curve_
    assert models[0].networks_.values.dtype == np.float32


def test_an_estimator_that_was_not_fitted_says_so():
    for name in ("networks_", "loss_curve_"):
        assert not hasattr(SparseMLPClassifier(), name)
    with pytest.raises(NotFittedError):
        SparseMLPClassifier().permutation_importances([[0.0]], [0])


def classic_predictions():
    X, y = load_iris(return_X_y=True)
    model = SparseMLPClassifier.classic(random_state=0).fit(X, y)
    yield "iris", model.predict_proba(X[::10]), model, X, y
    X, y = make_classification(1200, 8, random_state=0)
    model = SparseMLPClassifier.classic(random_state=0).fit(X, y)
    yield "early stopping", model.predict_proba(X[::80])[:, 1], model, X, y
    X, y = load_diabetes(return_X_y=True)
    model = SparseMLPRegressor.classic(random_state=0, max_iter=20).fit(X, y)
    yield "diabetes", model.predict(X[::30]), model, X, y


@pytest.mark.slow
def test_classic_is_the_default_of_before_and_a_plain_fit_of_its_networks():
    """Equal to the bit where they were stored; BLAS orders sums otherwise on other machines."""
    stored = json.loads((Path(__file__).parent / "classic.json").read_text())
    for name, predictions, model, X, y in classic_predictions():
        np.testing.assert_allclose(predictions, stored[name], rtol=1e-2 if name == "early stopping" else 1e-6)
        if name != "early stopping":
            Z = model._encoder.part.scaler.transform(X)
            target = y if name == "iris" else ((y - y.mean()) / y.std())[:, None]
            plain = fit(Z, target, model.networks_.settings, model.networks_.seeds)
            for ours, theirs in zip(model.networks_.layers, plain.layers, strict=True):
                np.testing.assert_array_equal(ours, theirs)


def tables(name, split, train=4000):
    table = load_table(name)
    order = np.random.RandomState(split).permutation(len(table.y))
    return [part for rows in (order[:train], order[train : train + 10_000]) for part in (table.x[rows], table.y[rows])]


needs_california = pytest.mark.skipif(not is_available("california"), reason="the table is not in ELEGANS_TABULAR")


@pytest.mark.slow
@needs_california
def test_gaps_cost_little_more_than_they_cost_boosting():
    X, y, X_test, y_test = tables("california", 0)
    random = np.random.default_rng(0)
    holes, holes_test = (np.where(random.uniform(size=each.shape) < 0.2, np.nan, each) for each in (X, X_test))
    rises = [
        model.fit(X, y).score(X_test, y_test) - clone(model).fit(holes, y).score(holes_test, y_test)
        for model in (SparseMLPClassifier(random_state=0), HistGradientBoostingClassifier(random_state=0))
    ]
    assert rises[0] <= rises[1] + 0.005


@pytest.mark.slow
@needs_california
def test_a_category_of_a_thousand_levels_that_says_nothing_costs_little():
    X, y, X_test, y_test = tables("california", 0, 5000)
    random = np.random.default_rng(0)
    levels = np.array([f"level {number}" for number in range(1000)])
    frames = [pd.DataFrame(each).rename(columns=str) for each in (X, X_test)]
    error = 1 - SparseMLPClassifier(random_state=0).fit(frames[0], y).score(frames[1], y_test)
    frames[0]["code"] = random.permutation(np.repeat(levels, 5))
    frames[1]["code"] = random.choice(levels, len(frames[1]))
    assert 1 - SparseMLPClassifier(random_state=0).fit(frames[0], y).score(frames[1], y_test) < error + 0.005


@pytest.mark.slow
def test_regression_is_as_good_as_a_forest_on_few_rows_and_better_on_smooth_targets():
    X, y = make_friedman1(8000, noise=1, random_state=0)
    assert SparseMLPRegressor(random_state=0).fit(X[:4000], y[:4000]).score(X[4000:], y[4000:]) >= 0.95
    X, y = load_diabetes(return_X_y=True)
    scores = []
    for split in range(10):
        X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=split)
        models = SparseMLPRegressor(random_state=split), RandomForestRegressor(random_state=split)
        scores.append([model.fit(X_train, y_train).score(X_test, y_test) for model in models])
    ours, forest = np.mean(scores, axis=0)
    assert ours >= forest


WIDE = """
import resource
import numpy as np
from elegans.tabular import SparseMLPClassifier

random = np.random.default_rng(0)
X = random.normal(size=(100_000, 50))
y = X[:, 0] * X[:, 1] > 0
SparseMLPClassifier(random_state=0, epochs=1).fit(X[:2000], y[:2000])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
model = SparseMLPClassifier(random_state=0, time_limit=5).fit(X, y)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, model.n_iter_, model.networks_.rate)
"""


@pytest.mark.slow
def test_a_hundred_thousand_rows_of_fifty_columns_need_little_memory_and_keep_a_time_limit():
    ended = subprocess.run([sys.executable, "-c", WIDE], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    more, trained, rate = map(float, ended.stdout.split())
    assert more * 1024 <= 400 * 2**20
    assert trained < 10
    assert rate < 0.3 * 2e-3
