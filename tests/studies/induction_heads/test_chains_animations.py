"""Animations and pages of attention show the weights that they were given."""

import json
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from elegans.errors import ExperimentError
from elegans.studies.induction_heads.animations import AttentionHistory, attention_animation, attention_page
from elegans.studies.induction_heads.attention_histories import histories_of, shown_steps


def history(times=4, heads=1, length=5):
    rng = np.random.default_rng(1)
    logits = tuple(rng.normal(size=(times, heads, length, length)) for _ in range(2))
    tokens = np.arange(length) % 3
    losses = np.linspace(0.2, 0.02, times)
    return AttentionHistory(tokens, 10 * np.arange(times), logits, losses, {"unigram": 0.09, "bigram": 0.01})


def test_histories_are_read_from_tables_and_their_weights_are_causal():
    made = history()
    seen = np.tril_indices(5)
    run = pd.DataFrame({"step": made.steps, "loss": made.losses}).assign(
        series="k = 2", typical=True, **{"line.unigram": 0.09, "line.bigram": 0.01}
    )
    maps = pd.DataFrame({"series": "k = 2", "step": made.steps}).assign(
        tokens=[made.tokens.tolist()] * 4,
        layer1=made.logits[0][:, 0][:, *seen].tolist(),
        layer2=made.logits[1][:, 0][:, *seen].tolist(),
    )
    (found,) = histories_of({"curves": pd.concat([run, run.assign(typical=False, loss=1.0)]), "maps": maps}).values()
    assert np.array_equal(found.steps, made.steps) and np.array_equal(found.losses, made.losses)
    assert found.lines == made.lines
    for time in range(4):
        for one, other in zip(found.weights(time), made.weights(time), strict=True):
            assert np.allclose(one, other) and np.allclose(one.sum(axis=-1), 1)
            assert (one[:, ~np.tri(5, dtype=bool)] == 0).all()


def test_a_thinned_history_keeps_the_first_and_the_last_time():
    found = history(times=101).thinned(10)
    assert len(found.steps) == len(found.losses) == len(found.logits[1]) == 10
    assert (found.steps[0], found.steps[-1]) == (0, 1000)
    assert len(history(times=3).thinned(10).steps) == 3


def test_an_animation_has_a_frame_a_time(tmp_path):
    attention_animation(history(times=3), tmp_path / "attention.gif")
    with Image.open(tmp_path / "attention.gif") as animation:
        assert animation.format == "GIF" and animation.size == (720, 290)
        assert animation.n_frames == 3  # those of the pause are joined to the last
        animation.seek(2)
        assert animation.info["duration"] >= 1000


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
    made = {"k = 2": history(heads=2), "</script>": history(times=80, length=7)}
    attention_page(made, tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    page = Reader(text)
    assert page.open == [] and page.names.count("script") == 2
    assert not re.search(r"https?:|//[a-z]|url\(|@import|\bfetch\b|XMLHttp|\bimport\b", text)
    assert not {"src", "href"} & {name for name, _ in page.attributes}
    assert "prefers-color-scheme: dark" in text and "{{" not in text
    data = json.loads(page.scripts[0])
    assert [network["name"] for network in data["networks"]] == list(made)
    for network, one in zip(data["networks"], made.values(), strict=True):
        kept = one.thinned()
        assert network["steps"] == kept.steps.tolist() and network["tokens"] == one.tokens.tolist()
        for found, logits in zip(network["layers"], kept.logits, strict=True):
            seen = np.tril_indices(len(one.tokens))
            assert np.abs(np.array(found) - logits[:, :, *seen]).max() <= 0.005 + 1e-9


def test_every_element_that_the_pages_program_asks_for_is_there(tmp_path):
    attention_page({"one": history()}, tmp_path / "page.html")
    page = Reader((tmp_path / "page.html").read_text())
    identities = {value for name, value in page.attributes if name == "id"}
    asked = set(re.findall(r'\b(?:at|fill)\("(\w+)"', page.scripts[1]))
    assert asked and asked <= identities


def test_pages_with_numbers_that_are_not_finite_are_refused(tmp_path):
    diverged = history()
    diverged.logits[0][1, 0, 2, 1] = np.nan
    with pytest.raises(ExperimentError, match="must be finite: broken"):
        attention_page({"broken": diverged}, tmp_path / "page.html")
    assert not list(tmp_path.iterdir())


def test_attention_is_drawn_around_the_transition():
    run = pd.DataFrame({"step": np.arange(0, 2001, 20), "transition": 540.0})
    assert shown_steps(run) == {"start": 0, "plateau": 260, "before": 460, "after": 680, "end": 2000}
    never = shown_steps(run.assign(transition=np.nan))
    assert never == {"start": 0, "plateau": 1000, "before": 1700, "after": 2000, "end": 2000}
