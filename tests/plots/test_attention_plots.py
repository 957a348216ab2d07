"""Pictures, films and pages of attention show the weights that they were given."""

import json
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import PathCollection
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from PIL import Image
from scipy.special import softmax

from elegans.errors import ExperimentError
from elegans.plots import attention_by_position, attention_lines, attention_map
from elegans.plots.style import COLOURS, GREY
from elegans.studies.induction_heads.animations import AttentionCourse, attention_film, attention_page, course_of
from elegans.studies.induction_heads.plot_pictures import shown_steps

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


def course(times=4, heads=1, length=5):
    rng = np.random.default_rng(1)
    logits = tuple(rng.normal(size=(times, heads, length, length)) for _ in range(2))
    tokens = np.arange(length) % 3
    losses = np.linspace(0.2, 0.02, times)
    return AttentionCourse(tokens, 10 * np.arange(times), logits, losses, {"unigram": 0.09, "bigram": 0.01})


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
        ([weights()[0]], None, r"weights must be of shape \(heads, 5, 5\): shape=\(5, 5\)"),
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
        (np.ones((2, 3)), None, r"must be square, a row a token: shape=\(2, 3\)"),
        (np.ones((3, 3)), TOKENS, r"must be square, a row a token: shape=\(3, 3\)"),
        (np.full((2, 2), np.nan), None, "must be finite on and below the diagonal"),
    ],
)
def test_maps_of_other_shapes_and_numbers_are_refused(values, tokens, message):
    with pytest.raises(ExperimentError, match=message):
        attention_map(values, axes(), tokens=tokens)


def test_weights_by_position_part_the_support_the_others_and_the_class_token():
    found = softmax(np.random.default_rng(2).normal(size=(7, 2, 6)), axis=-1)
    drawn = attention_by_position(found, support=[1, 3])
    assert len(drawn) == 2
    for head, ax in enumerate(drawn):
        scattered = [one for one in ax.collections if isinstance(one, PathCollection)]
        dots = {tuple(one.get_facecolor()[0][:3]): one.get_offsets() for one in scattered}
        inside, outside = (dots[to_rgba(COLOURS[place])[:3]] for place in (1, 0))
        own = dots[to_rgba(GREY)[:3]]
        assert np.allclose(np.sort(inside[:, 1]), np.sort(found[:, head, [1, 3]].ravel()))
        assert np.allclose(np.sort(outside[:, 1]), np.sort(found[:, head, [0, 2, 4]].ravel()))
        assert np.allclose(own[:, 1], found[:, head, 5])
        assert set(inside[:, 0].round()) == {1, 3} and (own[:, 0] > outside[:, 0].max() + 0.5).all()
        assert [text.get_text() for text in ax.get_xticklabels()] == ["1", "3", "class"]


@pytest.mark.parametrize(
    ("shape", "support", "count", "message"),
    [
        ((7, 6), (), 1, r"must be of examples, heads and places: shape=\(7, 6\)"),
        ((7, 1, 1), (), 1, "must be of examples, heads and places"),
        ((7, 1, 6), (5,), 1, r"support must lie in 0..4: support=\[5\]"),
        ((7, 2, 6), (), 1, "axes must be as many as heads: axes=1, heads=2"),
    ],
)
def test_weights_by_position_of_other_shapes_are_refused(shape, support, count, message):
    with pytest.raises(ExperimentError, match=message):
        attention_by_position(np.ones(shape), support=support, axes=[axes() for _ in range(count)])


def test_a_course_is_read_from_a_table_and_its_weights_are_causal():
    made = course()
    seen = np.tril_indices(5)
    run = pd.DataFrame({"step": made.steps, "loss": made.losses}).assign(
        tokens=[made.tokens.tolist()] * 4,
        layer1=made.logits[0][:, 0][:, *seen].tolist(),
        layer2=made.logits[1][:, 0][:, *seen].tolist(),
        **{"line.unigram": 0.09, "line.bigram": 0.01},
    )
    found = course_of(run.iloc[::-1])
    assert np.array_equal(found.steps, made.steps) and np.array_equal(found.losses, made.losses)
    for time in range(4):
        for one, other in zip(found.weights(time), made.weights(time), strict=True):
            assert np.allclose(one, other) and np.allclose(one.sum(axis=-1), 1)
            assert (one[:, ~np.tri(5, dtype=bool)] == 0).all()
    with pytest.raises(ExperimentError, match="must have a column 'tokens'"):
        course_of(run.drop(columns="tokens"))


def test_a_thinned_course_keeps_the_first_and_the_last_time():
    found = course(times=101).thinned(10)
    assert len(found.steps) == len(found.losses) == len(found.logits[1]) == 10
    assert (found.steps[0], found.steps[-1]) == (0, 1000)
    assert len(course(times=3).thinned(10).steps) == 3
    with pytest.raises(ExperimentError, match="at least two frames: frames=1"):
        course().thinned(1)
    with pytest.raises(ExperimentError, match="with a loss for each time: .*losses=2"):
        course()._replace(losses=np.zeros(2)).thinned(4)


def test_a_film_has_a_frame_a_time(tmp_path):
    attention_film(course(times=9), tmp_path / "film.gif", frames=3)
    with Image.open(tmp_path / "film.gif") as film:
        assert film.format == "GIF" and film.size == (720, 290)
        assert film.n_frames == 3  # those of the pause are joined to the last
        film.seek(2)
        assert film.info["duration"] >= 1000


class Reader(HTMLParser):
    """Which elements a page has, what they refer to, and the text of its scripts."""

    def __init__(self, text):
        super().__init__()
        self.open, self.names, self.scripts, self.attributes = [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.names.append(tag)
        self.attributes += attrs
        if tag not in ("meta", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts.append(data)


def test_a_page_stands_by_itself_and_has_every_frame(tmp_path):
    made = {"k = 2": course(heads=2), "</script>": course(times=30, length=7)}
    attention_page(made, tmp_path / "page.html", frames=10)
    text = (tmp_path / "page.html").read_text()
    page = Reader(text)
    assert page.open == [] and page.names.count("script") == 2
    assert not re.search(r"https?:|//[a-z]|url\(|@import|\bfetch\b|XMLHttp|\bimport\b", text)
    assert not {"src", "href"} & {name for name, _ in page.attributes}
    assert "prefers-color-scheme: dark" in text and "{{" not in text
    data = json.loads(page.scripts[0])
    assert [network["name"] for network in data["networks"]] == list(made)
    for network, one in zip(data["networks"], made.values(), strict=True):
        kept = one.thinned(10)
        assert network["steps"] == kept.steps.tolist() and network["tokens"] == one.tokens.tolist()
        for found, logits in zip(network["layers"], kept.logits, strict=True):
            seen = np.tril_indices(len(one.tokens))
            assert np.abs(np.array(found) - logits[:, :, *seen]).max() <= 0.005 + 1e-9


def test_every_element_that_the_pages_program_asks_for_is_there(tmp_path):
    attention_page({"one": course()}, tmp_path / "page.html")
    page = Reader((tmp_path / "page.html").read_text())
    identities = {value for name, value in page.attributes if name == "id"}
    asked = set(re.findall(r'\b(?:at|fill)\("(\w+)"', page.scripts[1]))
    assert asked and asked <= identities


def test_pages_without_networks_and_with_numbers_that_are_none_are_refused(tmp_path):
    with pytest.raises(ExperimentError, match="at least one network: courses=0"):
        attention_page({}, tmp_path / "page.html")
    diverged = course()
    diverged.logits[0][1, 0, 2, 1] = np.nan
    with pytest.raises(ExperimentError, match="must be finite: broken"):
        attention_page({"broken": diverged}, tmp_path / "page.html")
    assert not list(tmp_path.iterdir())


def test_pictures_are_taken_around_the_transition():
    run = pd.DataFrame({"step": np.arange(0, 2001, 20), "transition": 540.0})
    assert shown_steps(run) == {"start": 0, "plateau": 260, "before": 460, "after": 680, "end": 2000}
    never = shown_steps(run.assign(transition=np.nan))
    assert never == {"start": 0, "plateau": 1000, "before": 1700, "after": 2000, "end": 2000}
