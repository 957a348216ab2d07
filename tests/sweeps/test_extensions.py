from pathlib import Path

import pytest

from elegans import extensions
from elegans.errors import SweepError
from elegans.tasks import Task


def test_a_file_is_imported_once_and_its_classes_are_members(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("from elegans.tasks import SparseParity\nclass ImportedOnce(SparseParity):\n    'Mine.'\n")
    module = extensions.load(file)
    assert extensions.load(str(file)) is module
    assert Task.members()["imported-once"] is module.ImportedOnce


def test_two_files_of_one_name_are_two_modules(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.py").write_text(f"where = {folder!r}\n")
    assert [extensions.load(tmp_path / folder / "mine.py").where for folder in ("a", "b")] == ["a", "b"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("missing.py", None, "no such file: {file}"),
        ("mine.txt", "", "an extension must be a .py file: {file}"),
        (
            "bad.py",
            "x = 1\ny = 1 / 0\n",
            "an extension must import without an error: {file}, line 2: ZeroDivisionError: division by zero",
        ),
        (
            "worse.py",
            "x = 1\nx = = 2\n",
            "an extension must import without an error: {file}, line 2: SyntaxError: invalid syntax",
        ),
    ],
)
def test_a_wrong_extension_is_refused_with_rule_and_value(tmp_path, name, text, message):
    file = tmp_path / name
    if text is not None:
        file.write_text(text)
    with pytest.raises(SweepError) as raised:
        extensions.load(file)
    assert str(raised.value).startswith(message.format(file=file))


@pytest.mark.parametrize(
    ("name", "text"),
    [("\x1b[31mno.py", None), ("\x1b[31mmine.txt", ""), ("\x1b[31mbad.py", "raise ValueError('\x1b[2J')")],
)
def test_the_path_of_a_wrong_extension_cannot_act_on_a_terminal(tmp_path, name, text):
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(SweepError, match=r"(an extension must|no such file: ).*\\x1b\[31m") as raised:
        extensions.load(tmp_path / name)
    assert str(raised.value).isprintable()


def test_an_extension_that_failed_can_be_mended_and_loaded(tmp_path):
    file = tmp_path / "mended.py"
    file.write_text("1 / 0")
    with pytest.raises(SweepError):
        extensions.load(file)
    file.write_text("answer = 42\n")
    assert extensions.load(file).answer == 42


CAUSED = """Traceback (most recent call last):
  File "{library}/loop.py", line 1, in run
    yield from engine
  File "/home/me/mine.py", line 3, in apply
    return helped(x)
           ^^^^^^^^^
  File "{library}/component.py", line 5, in helped
    raise KeyError(x)
KeyError: 'x'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "{library}/loop.py", line 1, in run
    yield from engine
ValueError: no 'x'
and a second line
--------------------
For simplicity, JAX has removed its internal frames from the traceback of the following exception. Set X=off.
"""


def test_a_traceback_is_shown_with_the_frames_of_own_files_or_else_its_last_exception():
    text = CAUSED.format(library=Path(extensions.__file__).parent)
    assert extensions.own_frames(text) == (
        "Traceback (most recent call last):\n"
        '  File "/home/me/mine.py", line 3, in apply\n    return helped(x)\n           ^^^^^^^^^\n'
        "KeyError: 'x'\n\nThe above exception was the direct cause of the following exception:\n\n"
        "Traceback (most recent call last):\nValueError: no 'x'\nand a second line\n"
    )
    alone = text[text.rindex("Traceback") :]
    assert extensions.own_frames(alone) == alone[: alone.index("-----")]
    assert extensions.own_frames("MemoryError\n") == "MemoryError\n"
