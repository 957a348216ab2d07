"""Tables of the columns of trials and of the quantities that probes measure, from the docstrings that define them."""

import inspect
import re
from collections.abc import Iterator, Sequence

import elegans as el
from elegans.discovery import below, load
from elegans.store.queries import RESULTS


def columns() -> str:
    """Return a table of the columns of ``results.trials``."""
    described = dict(_arguments(el.Outcome))
    rows = [
        ("`task`, `task.n`, `regime.size`, `model.width`, …", "the trial's fields under dotted names"),
        ("`seed`", "the trial's seed"),
        *((f"`{name}`", described[name]) for name in RESULTS),
    ]
    return _table(("column", "meaning"), rows)


def measures() -> str:
    """Return a table of every kind of probe with the quantities that it measures."""
    rows = []
    for listed in below("Probe"):
        probe = load(listed.module, listed.name)
        if not inspect.isabstract(probe):
            method = getattr(probe, "evaluate", probe.measure)
            words = (inspect.getdoc(method) or "").removeprefix("Return ").partition("\n\nArgs:")[0]
            rows.append((f"`{probe.kind}`", f"[`{probe.__name__}`][{probe.__module__}.{probe.__name__}]", words))
    return _table(("kind", "probe", "quantities"), sorted(rows))


def _arguments(kind: type) -> Iterator[tuple[str, str]]:
    """Yield the name and the description of each argument in a class's docstring."""
    section = (inspect.getdoc(kind) or "").partition("Args:\n")[2]
    for name, text in re.findall(r"^    (\w+): ((?:.|\n(?!    \w+:))*)", section, re.MULTILINE):
        yield name, text.strip()


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    cells = [
        [re.sub(r"\s+", " ", cell).rstrip(".").replace("``", "`").replace("|", "\\|") for cell in row] for row in rows
    ]
    lines = ["| " + " | ".join(line) + " |" for line in (head, ["---"] * len(head), *cells)]
    return "\n".join(lines)
