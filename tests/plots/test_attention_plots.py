"""Figures of attention show the weights that they were given."""

import numpy as np
import pytest
from matplotlib.collections import PathCollection
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from scipy.special import softmax

from elegans.errors import ExperimentError
from elegans.plots import attention_by_position, attention_lines, attention_map
from elegans.plots.style import COLOURS, GREY

TOKENS = np.array([1, 0, 2, 0, 1])


def axes():
    return Figure().subplots()


def weights(heads=1, length=5, seed=0):
    logits = np.random.default_rng(seed).normal(size=(heads, length, length))
    return softmax(np.where(np.tri(length, dtype=bool), logits, -np.inf), axis=-1)


def previous(length=5):
    """Attention to the token before, of the first token to itself."""
    found = np.eye(length, k=-1)
    found[0, 0] = 1
    return found[None]


def ends(lines):
    """Return (key, query) of every line, and the row that it begins in."""
    segments = np.array(lines.get_segments())
    return {(round(one[0][0]), round(one[1][0])) for one in segments}, {float(one[0][1]) for one in segments}


def test_lines_go_from_queries_above_to_the_keys_that_they_attend_to():
    ax = attention_lines(TOKENS, [previous(), weights()], axes())
    below, above = ax.collections
    assert ends(below) == ({(0, 0), (0, 1), (1, 2), (2, 3), (3, 4)}, {0.2})
    assert ends(above) == ({(key, query) for query in range(5) for key in range(query + 1)}, {1.2})
    assert [text.get_text() for text in ax.texts] == list("bacab") * 3


def test_a_line_is_wider_and_darker_the_larger_its_weight():
    found = np.array([[[1.0, 0, 0], [0.25, 0.75, 0], [0.01, 0.36, 0.63]]])
    ax = attention_lines(TOKENS[:3], [found], axes(), queries=[(-1,)])
    (lines,) = ax.collections
    assert ends(lines)[0] == {(1, 2), (2, 2)}  # 0.01 is below what is drawn
    assert np.allclose(lines.get_alpha(), [0.6, 0.63**0.5])
    assert lines.get_linewidths()[0] < lines.get_linewidths()[1]


def test_heads_differ_by_colour_and_weights_of_later_keys_are_never_drawn():
    ax = attention_lines(TOKENS, [np.ones((2, 5, 5))], axes())
    colours = {tuple(lines.get_colors()[0][:3]) for lines in ax.collections}
    assert len(ax.collections) == len(colours) == 2
    assert all(key <= query for lines in ax.collections for key, query in ends(lines)[0])


@pytest.mark.parametrize(
    ("layers", "queries", "message"),
    [
        ([], None, "queries must be given for each of the layers: 0, layers=0"),
        ([weights()], [None, None], "queries must be given for each of the layers: 2, layers=1"),
        ([np.ones((1, 4, 4))], None, r"weights must be of shape \(heads, 5, 5\): shape=\(1, 4, 4\)"),
    ],
)
def test_lines_of_other_shapes_are_refused(layers, queries, message):
    with pytest.raises(ExperimentError, match=message):
        attention_lines(TOKENS, layers, axes(), queries=queries)


def test_a_map_shows_what_is_on_and_below_the_diagonal():
    found = weights()[0]
    (image,) = attention_map(found, axes(), tokens=TOKENS).images
    shown = image.get_array()
    assert np.array_equal(shown.mask, ~np.tri(5, dtype=bool))
    assert np.array_equal(shown.compressed(), found[np.tri(5, dtype=bool)])
    assert image.get_clim() == (0, 1)


def test_a_map_of_logits_has_the_same_scale_to_both_sides_of_0():
    logits = np.where(np.tri(3, dtype=bool), [[1.0, 0, 0], [-4, 2, 0], [0, 1, 3]], -np.inf)
    (image,) = attention_map(logits, axes(), logits=True).images
    assert image.get_clim() == (-4, 4)
    (image,) = attention_map(logits, axes(), logits=True, limit=7).images
    assert image.get_clim() == (-7, 7)


@pytest.mark.parametrize(
    ("values", "tokens", "message"),
    [
        (np.ones((2, 3)), None, r"must be square, one row per token: shape=\(2, 3\)"),
        (np.ones((3, 3)), TOKENS, r"must be square, one row per token: shape=\(3, 3\)"),
        (np.full((2, 2), np.nan), None, "must be finite on and below the diagonal"),
    ],
)
def test_maps_of_other_shapes_and_numbers_are_refused(values, tokens, message):
    with pytest.raises(ExperimentError, match=message):
        attention_map(values, axes(), tokens=tokens)


def test_weights_by_position_part_the_support_the_others_and_the_class_token():
    for found in softmax(np.random.default_rng(2).normal(size=(2, 7, 6)), axis=-1):
        ax = attention_by_position(found, support=[1, 3])
        scattered = [one for one in ax.collections if isinstance(one, PathCollection)]
        dots = {tuple(one.get_facecolor()[0][:3]): one.get_offsets() for one in scattered}
        inside, outside = (dots[to_rgba(COLOURS[place])[:3]] for place in (1, 0))
        own = dots[to_rgba(GREY)[:3]]
        assert np.allclose(np.sort(inside[:, 1]), np.sort(found[:, [1, 3]].ravel()))
        assert np.allclose(np.sort(outside[:, 1]), np.sort(found[:, [0, 2, 4]].ravel()))
        assert np.allclose(own[:, 1], found[:, 5])
        assert set(inside[:, 0].round()) == {1, 3} and (own[:, 0] > outside[:, 0].max() + 0.5).all()
        assert [text.get_text() for text in ax.get_xticklabels()] == ["1", "3", "class"]


@pytest.mark.parametrize(
    ("shape", "support", "message"),
    [
        ((7, 1), (), r"must have axes for examples and positions: shape=\(7, 1\)"),
        ((7, 6), (5,), r"support must lie in 0..4: support=\[5\]"),
    ],
)
def test_weights_by_position_of_other_shapes_are_refused(shape, support, message):
    with pytest.raises(ExperimentError, match=message):
        attention_by_position(np.ones(shape), support=support)
