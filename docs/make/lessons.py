"""The notebooks of the phenomena, made from the phenomena's own texts and from what is explained here to students."""

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import nbformat

from elegans.discovery import load
from elegans.phenomena import Phenomenon, phenomena


class Lesson(NamedTuple):
    """What a notebook explains.

    Args:
        title: the notebook's title.
        idea: what is at stake, before the training.
        reading: how to read the curves, after them.
        why: the mechanism.
        questions: what to try next.
    """

    title: str
    idea: str
    reading: str
    why: str
    questions: Sequence[str]


TEXTS = tomllib.loads((Path(__file__).parent / "lessons.toml").read_text(encoding="utf-8"))
LESSONS = {
    name: Lesson(
        **{part: " ".join(texts[part].split()) for part in ("title", "idea", "reading", "why")},
        questions=[" ".join(question.split()) for question in texts["questions"]],
    )
    for name, texts in TEXTS.items()
}
"""The lessons by the names of their phenomena."""


class Code(str):
    """The text of a cell of code."""

    __slots__ = ()


DRAWN = """import matplotlib.pyplot as plt

charts = shown.story.charts[:2]
size = (4.5 * len(charts), 3.4)
figure, panels = plt.subplots(1, len(charts), figsize=size, dpi=72, layout="constrained", squeeze=False)
for axes, chart in zip(panels[0], charts):
    for name, (steps, values) in chart.lines.items():
        axes.plot(steps, values, "--" if name in chart.dashed else "-", label=name)
    for name, level in chart.theory.items():
        axes.axhline(level, color="grey", linestyle="--", linewidth=1)
        axes.text(1, level, name, fontsize=8, ha="right", va="bottom", transform=axes.get_yaxis_transform())
    axes.set(title=chart.title, xlabel="step", xscale="log" if chart.logarithmic else "linear")
    axes.set_yscale("log" if chart.scale == "log" else "linear")
    axes.title.set_fontsize(10)
    axes.legend(fontsize=8, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.2))"""


def notebook(name: str) -> nbformat.NotebookNode:
    """Return the notebook of a phenomenon, without outputs."""
    phenomenon: Phenomenon = load(phenomena()[name].module, phenomena()[name].attribute)
    lesson = LESSONS[name]
    further = "\n".join(f"- {question}" for question in lesson.questions)
    texts = [
        f"# {lesson.title}\n\n**{phenomenon.shows}.** {lesson.idea}",
        f"## The training\n\n{phenomenon.setting} The run takes less than a minute.",
        Code(f'import elegans as el\n\nshown = el.phenomena.show("{name}")\nprint(shown.story.finding)'),
        f"## What happens\n\n{phenomenon.watch} Pictures that are not drawn below are on the page that `shown.write` "
        "writes.",
        Code(
            "for moment in sorted(shown.story.moments, key=lambda moment: moment.step)[:8]:\n"
            '    print(f"step {moment.step:5}: {moment.text}")'
        ),
        Code(DRAWN),
        f'{lesson.reading}\n\n`shown.write("{name}.html")` writes a page with a slider over the steps; '
        "with `shown` as its last line, a notebook cell displays this page.",
        f"## Why\n\n{lesson.why}",
        f"**What theory says.** {phenomenon.theory}",
        f"## Try it\n\n{further}\n\nSource: {phenomenon.source} [All phenomena](../phenomena.md).",
    ]
    cells: list[dict[str, Any]] = [
        {"id": f"{name}-{place}", "cell_type": "markdown", "metadata": {}, "source": str(text)}
        | ({"cell_type": "code", "outputs": [], "execution_count": None} if isinstance(text, Code) else {})
        for place, text in enumerate(texts)
    ]
    metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    book = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    made: nbformat.NotebookNode = nbformat.from_dict(book)  # type: ignore[no-untyped-call]
    return made
