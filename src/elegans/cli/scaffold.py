"""Templates of files that a user begins with: an experiment, a study, and each part of a trial.

They are files of the folder ``templates``, where the name is ``my-first``, ``my_first``, ``MyFirst`` or ``My first``.
"""

import keyword
import os
import re
import shlex
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from elegans import discovery
from elegans.errors import ExperimentError, printable, shown
from elegans.experiments.registry import entries
from elegans.files import checked_path, failure

FOLDER = Path(__file__).parent / "templates"
LONGEST = 60
"""Maximum number of characters of a name."""
_WORDS = re.compile(r"[a-z][a-z0-9]*(-[a-z][a-z0-9]*)*")


class Template(NamedTuple):
    """What a template makes.

    Args:
        makes: a line about it.
        family: the base class of the part that it defines, if it defines one.
        commands: what to run next, with ``path`` for the written file or folder.
    """

    makes: str
    family: str
    commands: tuple[str, ...]


def _part(makes: str, family: str, options: str) -> Template:
    return Template(makes, family, (f"elegans train --import path {options} --steps 2000",))


TEMPLATES = {
    "experiment": Template(
        "an experiment in one file: a task, a probe, a grid at two scales, a figure and a claim",
        "",
        ("elegans run path --scale smoke", "elegans run path"),
    ),
    "study": Template(
        "a package of experiments that elegans lists like its own, with its tests",
        "",
        ("pip install --editable path", "elegans run my-first-examples --scale smoke", "pytest path"),
    ),
    "task": _part("a task: its inputs and their labels", "Task", "--task my-first --n 20 --width 40"),
    "model": _part("a model: a function with parameters", "Model", "--model my-first --n 20 --k 2"),
    "activation": _part(
        "an activation: its value and its derivative",
        "Activation",
        "--n 20 --k 2 --width 40 --set model.activation=my-first",
    ),
    "init": _part("an initialisation of hidden weights", "Init", "--n 20 --k 2 --width 40 --init my-first"),
    "loss": _part("a loss", "Loss", "--n 20 --k 2 --width 40 --loss my-first"),
    "optimiser": _part(
        "an optimiser: how gradients become steps",
        "Training",
        "--n 20 --k 2 --width 40 --set training.kind=my-first --learning-rate 0.003",
    ),
    "probe": _part(
        "a probe: a measure taken while a network learns", "Probe", "--n 20 --k 2 --width 40 --probe my-first"
    ),
}
"""Every template by name."""


def write(template: str, name: str) -> tuple[list[Path], list[str]]:
    """Write a template's files under a name, and return them with the commands to run next.

    Args:
        template: one of ``TEMPLATES``.
        name: words joined by hyphens or underscores, or a class's name; or a path, whose folder exists and whose last
            part is such a name.

    Raises:
        ExperimentError: the name breaks a rule or is taken, the folder does not exist, or a file exists already.
    """
    path = checked_path(name, "a new file", ExperimentError)
    words = _checked(path.name.removesuffix(".py"))
    folder = path.parent
    if not folder.is_dir():
        raise ExperimentError(f"a new file must go into a folder that exists: {printable(str(folder))}")
    root = folder / words if template == "study" else folder / f"{_module(words)}.py"
    if os.path.lexists(root):
        raise ExperimentError(f"a new file must not replace one that exists: {printable(str(root))}")
    _refuse_taken(template, words)
    texts = dict(_texts(template, words, root))
    try:
        for file, text in texts.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("x", encoding="utf-8") as written:
                written.write(text)
    except OSError as error:
        raise ExperimentError(f"a new file must be writable: {failure(error)}") from None
    commands = [
        _filled(command, words).replace("path", shlex.quote(str(root))) for command in TEMPLATES[template].commands
    ]
    return list(texts), commands


def _module(words: str) -> str:
    return words.replace("-", "_")


def _class(words: str) -> str:
    return "".join(word.capitalize() for word in words.split("-"))


def _filled(text: str, words: str) -> str:
    """Return a text of a template with the name in place of ``my-first`` in each of its forms."""
    forms = (words, _module(words), _class(words), words.replace("-", " ").capitalize())
    for placeholder, form in zip(("my-first", "my_first", "MyFirst", "My first"), forms, strict=True):
        text = text.replace(placeholder, form)
    return text


def _checked(name: str) -> str:
    """Return a name as words joined by hyphens."""
    words = discovery.kebab(name).replace("_", "-")
    if not _WORDS.fullmatch(words) or len(words) > LONGEST:
        rule = f"at most {LONGEST} letters and digits in words that begin with a letter, joined by hyphens"
        raise ExperimentError(f"a new name must be {rule}: {shown(name)}")
    if discovery.kebab(_class(words)) != words:
        rule = "a new name must match its class, in which single letters in a row count as one word"
        raise ExperimentError(f"{rule}: {shown(name)}, {_class(words)} is {discovery.kebab(_class(words))!r}")
    if keyword.iskeyword(words):
        raise ExperimentError(f"a new name must not be a word of Python: {shown(name)}")
    return words


def _refuse_taken(template: str, words: str) -> None:
    family = TEMPLATES[template].family
    if family and words in discovery.kinds(family):
        raise ExperimentError(f"a new {template} must have a kind of its own: {words!r} is taken")
    experiment = {"experiment": words, "study": f"{words}-examples"}.get(template)
    if experiment in entries() or (template == "study" and _module(words) in discovery.studies()):
        raise ExperimentError(f"a new {template} must have a name of its own: {words!r} is taken")
    installed = find_spec(_module(words))
    if installed is not None and installed.origin is not None:
        raise ExperimentError(f"a new file must not hide an installed module: {_module(words)!r}")


def _texts(template: str, words: str, root: Path) -> Iterator[tuple[Path, str]]:
    """Yield the path and the text of each file."""
    if template != "study":
        yield root, _filled((FOLDER / f"{template}.py").read_text(encoding="utf-8"), words)
        return
    for file in sorted((FOLDER / "study").rglob("*.*")):
        if file.suffix in (".py", ".toml"):
            path = _filled(file.relative_to(FOLDER / "study").as_posix(), words)
            yield root / path, _filled(file.read_text(encoding="utf-8"), words)
    text = (FOLDER / "experiment.py").read_text(encoding="utf-8")
    yield root / _module(words) / f"{_module(words)}_examples.py", _filled(text, f"{words}-examples")
