"""Evidence: the record, verdicts and tables of a run, kept in a study's folder ``evidence``.

``<experiment>.<scale>.json`` holds the record and the verdicts, ``<experiment>.<scale>.csv`` the table behind the
figure (with the table's name before ``csv`` where there are several). Options of an experiment are part of the name, as
``.<option>=<value>``. Reading evidence imports nothing heavy.
"""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elegans import discovery
from elegans.errors import ClaimError

if TYPE_CHECKING:
    import pandas as pd

    from elegans.experiments.base import Result

SCHEMA = 1
LARGEST = 200_000
"""Size in bytes above which a table's rows are thinned."""
FEWEST = 10
"""Number of steps below which curves are not thinned to common steps."""
RANK = ("paper", "part", "laptop", "smoke")
"""Scales, in the order in which their verdicts count."""


@dataclass(frozen=True)
class Evidence:
    """One committed run of an experiment.

    Args:
        path: its JSON file.
        content: its content: ``schema``, ``experiment``, ``study``, ``scale``, ``setting``, ``options``,
            ``record``, ``verdicts`` (by claim) and ``tables`` (for each its file, its number of rows, and how many are
            kept).
    """

    path: Path
    content: Mapping[str, Any]

    @property
    def experiment(self) -> str:
        """The experiment's name."""
        return str(self.content["experiment"])

    @property
    def scale(self) -> str:
        """The scale at which it was run."""
        return str(self.content["scale"])

    @property
    def setting(self) -> str:
        """``published``, ``part of the published`` with the part's name, or ``smaller than published``."""
        return str(self.content["setting"])

    @property
    def verdicts(self) -> Mapping[str, Mapping[str, Any]]:
        """The verdicts by claim."""
        return dict(self.content["verdicts"])

    @property
    def rank(self) -> int:
        """The position of the scale in ``RANK``."""
        return RANK.index(self.scale) if self.scale in RANK else len(RANK)


@cache
def collected() -> tuple[Evidence, ...]:
    """Return the evidence of all studies, study by study."""
    return tuple(one for study in discovery.studies().values() for one in _read(study.folder / "evidence"))


def _read(folder: Path) -> Iterator[Evidence]:
    for path in sorted(folder.glob("*.json")):
        try:
            content = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise ClaimError(f"evidence must be readable JSON: {path.name}: {error}") from None
        if not isinstance(content, dict) or content.get("schema") != SCHEMA:
            raise ClaimError(f"evidence must have schema {SCHEMA}: {path.name}")
        yield Evidence(path, content)


def seconds() -> dict[tuple[str, str], float]:
    """Return how long the run behind each piece of evidence took, by experiment and scale, without options.

    A resumed run took at least its training time divided by the number of cores.
    """
    return {
        (one.experiment, one.scale): max(
            float(one.content["record"]["seconds"]),
            float(one.content["record"]["training_seconds"]) / int(one.content["record"]["machine"]["cores"]),
        )
        for one in collected()
        if not one.content["options"]
    }


def verdict_of(claim: str) -> tuple[Evidence, Mapping[str, Any]] | None:
    """Return the evidence that decides a claim and its verdict, at the scale nearest to the published one.

    Where none decides it, evidence with what the rule needs comes before evidence that lacks it.
    """
    found = [one for one in collected() if claim in one.verdicts]
    decided = [one for one in found if one.verdicts[claim]["verdict"] != "undecided"]
    measured = [one for one in found if one.verdicts[claim]["numbers"]]
    best = min(decided or measured or found, key=lambda one: (one.rank, one.path.name), default=None)
    return None if best is None else (best, best.verdicts[claim])


def keep(result: "Result", study: str, options: Mapping[str, Any], folder: Path | None = None) -> Path:
    """Write the evidence of a run into its study's folder and return the JSON file.

    Tables of over 200 kB are thinned, those of curves to the same steps of all curves where that leaves enough of them,
    others to evenly spaced rows; the file states how many rows were kept.

    Raises:
        ClaimError: trials failed or were interrupted, or the folder cannot be written.
    """
    if result.failed or result.interrupted:
        raise ClaimError(
            f"evidence must come from a complete run: failed={result.failed}, interrupted={result.interrupted}"
        )
    folder = folder or discovery.studies()[study].folder / "evidence"
    scale = result.experiment.scale(result.scale)
    stem = ".".join([result.experiment.name, result.scale, *(f"{name}={value}" for name, value in options.items())])
    record = dict(result.record)
    verdicts = record.pop("verdicts")
    try:
        folder.mkdir(exist_ok=True)
        for old in folder.glob(f"{stem}*.csv"):
            if old.name == f"{stem}.csv" or old.name.removeprefix(f"{stem}.").removesuffix(".csv") in result.tables:
                old.unlink()
        single = len(result.tables) == 1
        kept = {
            name: _thinned(table, folder / (f"{stem}.csv" if single else f"{stem}.{name}.csv"))
            for name, table in result.tables.items()
        }
        content = {
            "schema": SCHEMA,
            "experiment": result.experiment.name,
            "study": study,
            "scale": result.scale,
            "setting": scale.setting(result.scale),
            "options": {name: str(value) for name, value in options.items()},
            "record": record,
            "verdicts": verdicts,
            "tables": kept,
        }
        path = folder / f"{stem}.json"
        path.write_text(json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
    except OSError as error:
        raise ClaimError(f"evidence must be writable: {error}") from None
    collected.cache_clear()
    return path


def _thinned(table: "pd.DataFrame", path: Path) -> dict[str, Any]:
    text = table.to_csv(index=False, float_format="%.6g")
    rows, ratio = table, math.ceil(len(text.encode()) / LARGEST)
    while len(text.encode()) > LARGEST and len(rows) > 1:
        rows, ratio = _one_in(ratio, table), ratio + 1
        text = rows.to_csv(index=False, float_format="%.6g")
    path.write_text(text)
    return {"file": path.name, "rows": len(table), "kept": len(rows)}


def _one_in(ratio: int, table: "pd.DataFrame") -> "pd.DataFrame":
    """Return about one in so many rows: of curves those at some steps, half of them evenly spaced and half early."""
    steps = sorted(set(table["step"])) if "step" in table else []
    half = len(steps) // ratio // 2
    if 2 * half < FEWEST:
        return table.iloc[::ratio]
    even = {round((len(steps) - 1) * place / half) for place in range(half + 1)}
    early = {round(len(steps) ** (place / half)) - 1 for place in range(half + 1)}
    return table[table["step"].isin([steps[place] for place in even | early])]
