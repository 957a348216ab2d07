"""Rows as networks read them: bins, categories, gaps."""

import numpy as np
import pytest

from elegans.tabular.encoding import Bins, RawRows


def numbers(values, new, bins):
    encoding = Bins(bins).fit(RawRows(np.array(values, float)[:, None]), [0])
    return encoding, encoding.inputs.expand(encoding.transform(RawRows(np.array(new, float)[:, None])))


def categories(values, new, embed=False):
    rows = [RawRows(np.zeros((len(each), 1)), {0: np.array(each, object)}) for each in (values, new)]
    encoding = Bins(None, embed).fit(rows[0], [0])
    return encoding, encoding.inputs.expand(encoding.transform(rows[1]))


def test_a_number_is_its_place_among_quantiles_and_its_clipped_deviation_from_the_median():
    encoding, inputs = numbers([0, 1, 2, 4], [2, -9, 99], bins=2)
    column = encoding.columns[0]
    assert (column.edges.tolist(), column.middle, column.spread) == ([0, 1.5, 4], 1.5, 1.75)
    np.testing.assert_allclose(inputs[:, :2], [[1, -0.6], [-1, -1], [1, 1]])
    z = (np.array([2, -9, 99]) - 1.5) / 1.75
    np.testing.assert_allclose(inputs[:, 2], z / np.sqrt(1 + (z / 3) ** 2))
    assert (np.abs(inputs[:, 2]) < 3).all()


def test_the_spread_is_half_the_range_where_the_middle_half_is_one_value():
    encoding, _ = numbers([0, 1, 1, 1, 1, 1, 1, 5], [0], bins=4)
    assert encoding.columns[0].spread == 2.5


@pytest.mark.parametrize(
    ("rows", "columns", "bins"), [(8, 1, 4), (60, 1, 15), (1000, 1, 32), (1000, 500, 16), (1000, 4000, 4)]
)
def test_the_number_of_bins_follows_from_rows_and_columns(rows, columns, bins):
    values = np.random.default_rng(0).normal(size=(rows, columns))
    encoding = Bins().fit(RawRows(values), range(columns))
    assert encoding.inputs.look_ups[:, 1].tolist() == [bins] * columns


@pytest.mark.parametrize("values", [[3.0] * 5, [np.nan] * 5])
def test_a_column_without_information_is_left_out(values):
    encoding, inputs = numbers(values, [3, 7, np.nan], bins=4)
    assert inputs.shape == (3, 0)
    assert encoding.inputs.columns == 1


def test_a_gap_has_an_input_of_its_own_where_training_had_gaps_and_is_the_median_elsewhere():
    _, inputs = numbers([0, 1, 2, 4, np.nan], [np.nan, 2], bins=2)
    np.testing.assert_allclose(inputs[0], [0, 0, 1, 0])
    assert inputs[1, 2] == 0
    _, inputs = numbers([0, 1, 2, 4], [np.nan, 1.5], bins=2)
    np.testing.assert_array_equal(inputs[0], inputs[1])
    _, inputs = numbers([3, 3, np.nan], [3, np.nan, 8], bins=2)
    np.testing.assert_array_equal(inputs, [[0], [1], [0]])


def test_numbers_of_any_size_stay_finite():
    _, inputs = numbers([-1.7e308, 0, 1.7e308, 5], [1.7e308, -1.7e308, 3], bins=3)
    assert np.isfinite(inputs).all()


def test_two_levels_are_a_sign_and_unseen_ones_are_zero():
    _, inputs = categories(["b"] * 5 + ["a"] * 6, ["a", "b", "c", None])
    np.testing.assert_array_equal(inputs, [[-1], [1], [0], [0]])
    _, inputs = categories(["b"] * 5 + ["a"] * 6 + [None], ["a", "b", "c", None])
    np.testing.assert_array_equal(inputs, [[0, -1], [0, 1], [0, 0], [1, 0]])


def test_up_to_nine_levels_are_one_hot_and_rare_ones_share_an_input():
    values = ["a"] * 5 + ["b"] * 5 + ["c", "d"]
    _, inputs = categories(values, ["a", "b", "c", "d", "new", None])
    np.testing.assert_array_equal(inputs, np.eye(3)[[0, 1, 2, 2, 2, 2]])
    _, inputs = categories(["a"] * 5 + ["b"] * 5 + ["c"] * 5, ["a", "new", None])
    np.testing.assert_array_equal(inputs, [[1, 0, 0], [0, 0, 0], [0, 0, 0]])


def test_more_levels_are_embedded_with_one_more_for_unseen_values():
    values = [f"level {number}" for number in range(12)] * 25 + ["rare"] * 24 + [None] * 5
    rows = RawRows(np.zeros((len(values), 1)), {0: np.array(values, object)})
    encoding = Bins().fit(rows, [0])
    assert encoding.inputs.sizes == (15,)
    new = RawRows(np.zeros((3, 1)), {0: np.array(["level 0", None, "new"], object)})
    assert encoding.transform(new).levels.tolist() == [[0], [13], [12]]
    few = RawRows(np.zeros((120, 1)), {0: np.array([f"level {number}" for number in range(12)] * 10, object)})
    assert Bins().fit(few, [0]).inputs.count == 0  # too few rows of each to learn more than their order


def test_levels_are_matched_by_value_in_an_order_of_their_own():
    first, _ = categories([1, 10, 2] * 6, [1])
    assert list(first.columns[0].numbers) == [1, 2, 10]
    _, inputs = categories([1, 10, 2] * 6, [2.0, 10, True])
    np.testing.assert_array_equal(inputs, np.eye(3)[[1, 2, 0]])


@pytest.mark.parametrize("values", [["a"] * 9, [None] * 9, ["a", "b", "c"]])
def test_categories_without_information_are_left_out(values):
    assert categories(values, ["a", None])[1].shape == (2, 0)
