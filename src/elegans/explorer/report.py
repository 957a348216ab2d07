"""A store, or the results of an experiment, as one file: the explorer's page with its answers written into it."""

import base64
import gzip
import hashlib
import importlib.resources
import io
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from elegans import records
from elegans.errors import ExperimentError, printable
from elegans.experiments.registry import claims, entries
from elegans.explorer.cells import Cells
from elegans.explorer.details import cell_record
from elegans.explorer.figures import as_json, has_theory, map_record, plain, title
from elegans.explorer.overview import overview
from elegans.explorer.verdicts import judged
from elegans.explorer.view import View
from elegans.files import checked_path, readable, replaced, writable
from elegans.store import Store
from elegans.store.export import write_csv

MAPS, CELLS = 2_000_000, 4_500_000
"""Maximum number of characters of packed maps and cells: the file, with 5 MB of chart script, stays under 12 MB."""
POINTS = (400, 200, 100, 50, 25, 12)
"""Candidates for the maximum number of points per curve: the first with which all cells fit is taken."""
TRIED = 3
"""The number of cells by which the number of points is chosen."""
DIGITS = 5
"""Significant digits of numbers in figures."""
STYLE = '<link rel="stylesheet" href="page.css">'
CHARTS = '<script src="plotly.js" defer></script>\n'
SCRIPTS = ("base.js", "charts.js", "views.js", "many.js", "page.js")
CODE = "".join(f'<script src="{name}" defer></script>\n' for name in SCRIPTS)
"""The lines of the page that load the server's files; a report contains these files instead."""


class Written(NamedTuple):
    """What a report has.

    Args:
        size: bytes of the file.
        maps: how many maps.
        kept, cells: how many cells have their curves in it, and how many cells there are.
        points: the maximum number of points per curve.
    """

    size: int
    maps: int
    kept: int
    cells: int
    points: int


def write_report(place: str | Path, out: str | Path) -> Written:
    """Write a store, or the folder of an experiment's results, as one HTML file that needs no server and no network.

    Args:
        place: a store, or the folder of an experiment's results as ``elegans run`` writes it, with the latest
            ``record.json`` of its scales; or the folder of one scale.
        out: the file; one that exists is replaced.

    Raises:
        StoreError: the store cannot be read.
        ExperimentError: the folder holds no results, or the file cannot be written.
    """
    folder = checked_path(place, "results", ExperimentError) if "://" not in str(place) else None
    record: Mapping[str, Any] = {}
    inputs: list[Path] = []
    name = str(place) if folder is None else folder.resolve()
    if folder is not None and folder.is_dir():
        record, place, inputs = _results(folder)
    file = writable(out, "a report", ExperimentError, place, inputs)
    with Store(place, create=False) as store:
        cells = Cells(store)
        try:
            content, written = _content(store, cells, record)
            content["overview"]["stores"][0]["name"] = printable(Path(name).name)
        finally:
            cells.close()
    text = _page(content).encode("utf-8", "replace")
    try:
        with replaced(file) as draft:
            draft.write_bytes(text)
    except OSError as error:
        raise ExperimentError(
            f"a report must go to a writable file: {printable(str(file))} ({error.strerror or error})"
        ) from None
    return written._replace(size=len(text))


def _results(folder: Path) -> tuple[Mapping[str, Any], Path, list[Path]]:
    """Return the latest record in a folder of results or of one of its scales, the store, and the files of records."""
    files = sorted([*folder.glob("record.json"), *folder.glob("*/record.json")], key=lambda file: file.stat().st_mtime)
    if not files:
        raise ExperimentError(f"a folder of results must have a record.json: {printable(str(folder))}")
    text = readable(files[-1], "a record", ExperimentError).read_text(encoding="utf-8", errors="replace")
    record = records.read(text, "JSON", printable(str(files[-1])), ExperimentError)
    stores = folder / "runs.db", folder.resolve().parent / "runs.db"
    return record, next((store for store in stores if store.exists()), stores[0]), files


def _content(store: Store, cells: Cells, record: Mapping[str, Any]) -> tuple[dict[str, Any], Written]:
    """Return the answers that the page asks for, and what they cover."""
    verdicts = record.get("verdicts")
    known, cells.analysed = judged(store, cells)
    if isinstance(verdicts, Mapping):
        known = [_experiment(record, verdicts)]
    entry = {"index": 0, **overview(store, cells, known)}
    entry["runs"] = [run | {"host": "", "pid": None} for run in entry["runs"]]
    maps = list(_maps(cells, [one["name"] for one in entry["statistics"]]))
    points = _points(store, cells)
    kept = dict(_kept(store, cells, points))
    stated = {one["id"] for experiment in entry["experiments"] for one in experiment["verdicts"]}
    written = Written(0, len(maps), len(kept), len(cells.table), points)
    table = io.StringIO()
    further = {name: cells.column(name) for name in cells.analysed}
    write_csv(cells.table.assign(**further).reset_index(), table)
    covered = {
        "curves": f"at most {points} points each",
        "cells": f"{len(kept)} of {len(cells.table)} with curves and trials",
    }
    return {
        "written": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "overview": {"stores": [entry]},
        "maps": maps,
        "cells": kept,
        "csv": table.getvalue(),
        "record": plain(dict(_flat(record)) | covered),
        "claims": {name: claim.statement for name, claim in claims().items() if name in stated},
    }, written


def _experiment(record: Mapping[str, Any], verdicts: Mapping[str, Any]) -> dict[str, Any]:
    name = str(record.get("experiment"))
    return {
        "name": name,
        "scale": plain(record.get("scale")),
        "title": entries()[name].shows if name in entries() else "",
        "verdicts": [
            {"id": name, "verdict": str(one.get("verdict")), "because": str(one.get("because"))}
            for name, one in verdicts.items()
            if isinstance(one, Mapping)
        ],
    }


def _flat(record: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the entries of a record that one line can show, by dotted name."""
    for name, value in record.items():
        if name in ("verdicts", "findings", "tables", "files") and not prefix:
            continue
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _maps(cells: Cells, statistics: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield maps, what people look at first before the rest, as many as there is room for."""
    room, seen = MAPS, set()
    for query in _queries(cells, statistics):
        view = View.parse(query, cells)
        if view.query() in seen:
            continue
        seen.add(view.query())
        kept = view.record() | {"theories": has_theory(cells, view)}
        figure = short(as_json(map_record(cells, view)))
        content = _packed({"view": kept, "query": view.query(), "title": title(cells, view), "figure": figure})
        room -= len(content)
        if room < 0 and len(seen) > 1:
            return
        yield {"view": kept, "content": content}


def _queries(cells: Cells, statistics: Sequence[str]) -> Iterator[dict[str, str]]:
    """Yield what maps can be asked for: the first axes with all values of the others, then other pairs of axes."""
    first = View.parse({}, cells)
    pairs = itertools.combinations([axis.name for axis in cells.axes], 2)
    others = [{"x": x, "y": y, "contour": "0"} for x, y in pairs if {x, y} != {first.x, first.y}]
    usual = {"x": first.x or "", "y": first.y or "", "facet": first.facet or ""}
    lines = [
        {"contour": contour, "theory": theory} for theory in "01"[: 1 + has_theory(cells, first)] for contour in "10"
    ]
    for placed in (*(usual | drawn for drawn in lines), *others):
        sliders = [axis for axis in cells.axes if axis.name in View.parse(placed, cells).at]
        for values in itertools.product(*(axis.texts for axis in sliders)):
            at = {f"at.{axis.name}": value for axis, value in zip(sliders, values, strict=True)}
            for statistic in statistics:
                yield placed | at | {"stat": statistic}


def _points(store: Store, cells: Cells) -> int:
    """Return how many points a curve may have so that all cells fit, by some of them."""
    numbers = cells.table["ended"].sort_values(ascending=False).index
    tried = [int(number) for number in numbers[:: max(1, len(numbers) // TRIED)]]
    for points in POINTS:
        sizes = [len(_packed(_cell(store, cells, number, points))) for number in tried]
        if not sizes or sum(sizes) / len(sizes) * len(numbers) <= CELLS:
            return points
    return POINTS[-1]


def _kept(store: Store, cells: Cells, points: int) -> Iterator[tuple[str, str]]:
    room = CELLS
    for number in map(int, cells.table.index):
        content = _packed(_cell(store, cells, number, points))
        room -= len(content)
        if room < 0:
            return
        yield str(number), content


def _cell(store: Store, cells: Cells, number: int, points: int) -> dict[str, Any]:
    """Return a cell with all of its measures, the further ones by name."""
    found = cell_record(store, cells, number, points=points)
    further = {}
    for measure in found["measures"][1:]:
        figures = cell_record(store, cells, number, measure=measure, points=points)["figures"]
        further[measure] = next((one for one in figures if one["name"] == "measure"), None)
    kept: dict[str, Any] = short(found | {"measured": {name: one for name, one in further.items() if one is not None}})
    return kept


def short(value: Any) -> Any:
    """Return a value of JSON with numbers of a few digits; whole numbers keep all."""
    if isinstance(value, dict):
        return {name: short(one) for name, one in value.items()}
    if isinstance(value, list):
        return [short(one) for one in value]
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < 2**53 else float(f"{value:.{DIGITS}g}")
    return value


def _packed(value: Any) -> str:
    """Return JSON compressed, as text: figures repeat themselves."""
    return base64.b64encode(gzip.compress(_json(value).encode("utf-8", "replace"), mtime=0)).decode()


def _json(value: Any) -> str:
    return json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))


def _page(content: Mapping[str, Any]) -> str:
    """Return the page with style, scripts and answers in it; only these scripts run."""
    files = importlib.resources.files("elegans.explorer").joinpath("page")
    html, style, *codes = (files.joinpath(name).read_text("utf-8") for name in ("index.html", "page.css", *SCRIPTS))
    charts = importlib.resources.files("plotly").joinpath("package_data", "plotly.min.js").read_text("utf-8")
    scripts = [_inert(charts), *map(_inert, codes)]
    digests = (base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    policy = (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    answers = _json(content).replace("<", "\\u003c")  # data that cannot end their element
    head = (
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        f"<style>\n{style}</style>",
        f'<script type="application/json" id="report">{answers}</script>',
    )
    before, after = html.split(STYLE)
    before, after = before + "\n".join(head), after.replace(CHARTS, "").replace(CODE, "")
    return before + after.replace("</body>", "".join(f"<script>{one}</script>\n" for one in scripts) + "</body>")


def _inert(script: str) -> str:
    """Return a script that cannot end its element, whatever its texts are."""
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")
