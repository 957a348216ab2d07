"""The phenomena of all studies, read from the text of their files: nothing is imported."""

import ast
from functools import cache
from pathlib import Path
from typing import NamedTuple

from elegans import discovery

FIRST = (
    *("grokking", "xor-phases", "induction-head", "hidden-progress", "staircase", "learning-rates"),
    *("lottery-ticket", "certificate", "width-buys-data", "slingshot"),
)
"""The best-known phenomena, which are listed first."""


class ListedPhenomenon(NamedTuple):
    """A phenomenon, as read from the text of its study's file: nothing is imported.

    Args:
        name: its name.
        shows: what one sees.
        study: the study that it belongs to.
        module, attribute: where it is defined.
    """

    name: str
    shows: str
    study: str
    module: str
    attribute: str


@cache
def phenomena() -> dict[str, ListedPhenomenon]:
    """Return the phenomena of all studies by name, the best-known first; nothing is imported."""
    found = [
        listed
        for study in discovery.studies().values()
        if (path := study.folder / "phenomena.py").exists()
        for listed in _listed(study, path)
    ]
    places = {name: place for place, name in enumerate(FIRST)}
    return {each.name: each for each in sorted(found, key=lambda each: places.get(each.name, len(FIRST)))}


def _listed(study: discovery.Study, path: Path) -> list[ListedPhenomenon]:
    listed = []
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        call = node.value if isinstance(node, ast.Assign) else None
        if isinstance(call, ast.Call) and ast.unparse(call.func).rpartition(".")[2] == "Phenomenon":
            texts = {each.arg: each.value for each in call.keywords}
            name, shows = (ast.literal_eval(texts[title]) for title in ("name", "shows"))
            assert isinstance(node, ast.Assign)
            attribute = ast.unparse(node.targets[0])
            listed.append(ListedPhenomenon(name, shows, study.name, f"{study.package}.phenomena", attribute))
    return listed
