"""Evidence: the record, verdicts and tables of a run, kept in a study's folder ``evidence``.

``<experiment>.<scale>.json`` holds the record and the verdicts, ``<experiment>.<scale>.csv`` the table behind the
figure (with the table's name before ``csv`` where there are several; ``parquet`` where it is large). Options of an
experiment are part of the name, as ``.<option>=<value>``. Tables are kept whole, with numbers of six digits, and
verdicts are judged from what is kept, so that anyone can judge them again. The folder ``fresh`` in it holds the same
for runs on seeds that no rule has seen. A wheel has the records and verdicts, and the repository the tables too.
Reading records imports nothing heavy.
"""

import io
import json
import math
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import count, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elegans import discovery
from elegans.display import displayed
from elegans.errors import ClaimError, brief, printable, shown
from elegans.experiments.words import LACKS, UNDECIDED
from elegans.files import failure, readable, replaced, writable

if TYPE_CHECKING:
    import pandas as pd

    from elegans.experiments.base import Result

SCHEMA = 1
LARGEST = 200_000
"""Size in bytes above which a table is kept as Parquet instead of CSV."""
REPEATS = 4
"""Columns whose numbers occur this often, on average, are smaller as a dictionary of their values."""
FRESH, EARLIER = "fresh", "earlier"
"""The folders of evidence on fresh seeds, and of evidence from trials that others have replaced."""
RANK = ("paper", "part", "laptop", "smoke")
"""Scales, in the order in which their verdicts count."""


@displayed
@dataclass(frozen=True)
class Evidence:
    """One committed run of an experiment.

    Args:
        path: its JSON file.
        content: its content: ``schema``, ``experiment``, ``study``, ``scale``, ``setting``, ``options``,
            ``record``, ``verdicts`` (by claim) and ``tables`` (for each its file and number of rows).
    """

    path: Path
    content: Mapping[str, Any]

    @property
    def experiment(self) -> str:
        """The experiment's name."""
        return str(self.content["experiment"])

    @property
    def study(self) -> str:
        """The name of the experiment's study."""
        return str(self.content["study"])

    @property
    def scale(self) -> str:
        """The scale of the run."""
        return str(self.content["scale"])

    @property
    def setting(self) -> str:
        """How the scale compares with the published one, as ``Experiment.setting`` says it."""
        return str(self.content["setting"])

    @property
    def verdicts(self) -> Mapping[str, Mapping[str, Any]]:
        """The verdicts by claim."""
        return dict(self.content["verdicts"])

    @property
    def tables(self) -> Mapping[str, "pd.DataFrame"]:
        """The tables by name, each read when it is asked for.

        Raises:
            ClaimError: on access to a table that is missing, damaged or incomplete, so that nothing can be judged from
                it.
        """
        return _Tables(self)

    @property
    def extent(self) -> str:
        """The scale in a word: ``part`` instead of ``paper`` if that leaves out a part of the published setting.

        ``computed`` if the run has no trials: then sizes are ours, and nothing published was run.
        """
        if not self.content["record"]["trials"]:
            return "computed"
        return "part" if self.setting.startswith("part of") else self.scale

    @property
    def seconds(self) -> float:
        """How long the run took; a resumed one took at least its training time divided by the number of cores."""
        record = self.content["record"]
        training = float(record["training_seconds"]) / max(1, int(record["machine"]["cores"]))
        return max(float(record["seconds"]), training)

    @property
    def arguments(self) -> Mapping[str, Any]:
        """The arguments that the run passed to ``run_experiment``: options, engine and number of trials."""
        given = self.content["record"].get("arguments", {}).items()
        return {**{name: value for name, value in given if value is not None}, "options": self.content["options"]}

    @property
    def rank(self) -> int:
        """The position of the scale in ``RANK``."""
        return RANK.index(self.scale) if self.scale in RANK else len(RANK)


def collected(kind: str = "") -> tuple[Evidence, ...]:
    """Return the evidence of all studies, study by study, and then the evidence beside the user's files.

    Args:
        kind: ``FRESH`` for runs of the same experiments on fresh seeds, ``EARLIER`` for runs of other trials that were
            evidence before; neither decides anything.
    """
    of_studies = [piece for study in discovery.studies().values() for piece in of_folder(study.folder, kind)]
    own = discovery.own_studies().values()
    mine = (piece for study in own for piece in of_folder(study.folder, kind) if piece.study == study.name)
    return *of_studies, *mine


@cache
def of_folder(folder: Path, kind: str = "") -> tuple[Evidence, ...]:
    """Return the evidence in a study's folder."""
    return tuple(map(_read, sorted((folder / "evidence" / kind).glob("*.json"))))


def _read(path: Path) -> Evidence:
    name = printable(path.name)
    try:
        content = json.loads(readable(path, "evidence", ClaimError).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ClaimError(f"evidence must be readable JSON: {name}: {brief(str(error), 200)}") from None
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        raise ClaimError(f"evidence must have schema {SCHEMA}: {name}")
    for wrong in _wrong(content, _SHAPE):
        raise ClaimError(f"evidence must be as a run wrote it: {name}: {wrong}")
    return Evidence(path, content)


LARGEST_NUMBER = 1e18
"""Above all seconds, rows and cores of a run; no other number of a record is used."""
_NUMBER = int | float
_VERDICT = {"verdict": str, "because": str, "error_rate": _NUMBER, "numbers": dict, "rule": str}
_RECORD = {"command": str, "date": str, "seconds": _NUMBER, "training_seconds": _NUMBER, "machine": {"cores": int}}
_SHAPE = {
    **dict.fromkeys(("experiment", "study", "scale", "setting"), str),
    "options": {"*": str},
    "record": _RECORD,
    "verdicts": {"*": _VERDICT},
    "tables": {"*": {"file": str, "rows": int}},
}
"""The types of what readers of evidence use; an asterisk stands for every key."""


def _wrong(value: Any, shape: Any, name: str = "it") -> Iterator[str]:
    """Yield in words what a value has of another type than its shape."""
    if not isinstance(shape, dict):
        large = isinstance(value, int | float) and not abs(value) < LARGEST_NUMBER
        if not isinstance(value, shape) or isinstance(value, bool) or large:
            yield f"{name}={shown(value)}"
        return
    if not isinstance(value, dict):
        yield f"{name}={shown(value)}"
        return
    for key in value if "*" in shape else shape:
        if key in value:
            yield from _wrong(value[key], shape.get(key, shape.get("*")), printable(f"{name}.{key}"))
        else:
            yield f"{name} has no {key}"


def seconds() -> dict[tuple[str, str], float]:
    """Return how long the run behind each piece of evidence took, by experiment and scale, without options."""
    pieces = (evidence for evidence in collected() if not evidence.content["options"])
    return {(evidence.experiment, evidence.scale): evidence.seconds for evidence in pieces}


def verdict_of(claim: str) -> tuple[Evidence, Mapping[str, Any]] | None:
    """Return the evidence that speaks for a claim, at the scale nearest to the published setting, and its verdict.

    Evidence that lacks what the rule needs comes last. Of runs at one scale, runs with the experiment's own options
    come first. The latest run counts, but a part of an experiment speaks for a claim only if it decides it, or if it
    lacks trials of fewer of the claim's parts.
    """
    judged = [evidence for evidence in collected() if claim in evidence.verdicts]
    measured = [evidence for evidence in judged if evidence.verdicts[claim]["numbers"]]

    def order(evidence: Evidence) -> tuple[Any, ...]:
        options, verdict = evidence.content["options"], evidence.verdicts[claim]
        undecided = verdict["verdict"] == UNDECIDED
        lacks = str(verdict["because"]).count(LACKS) if undecided else 0
        return evidence.rank, lacks, "parts" in options and undecided, bool({*options} - {"parts"})

    latest = sorted(measured or judged, key=lambda evidence: str(evidence.content["record"]["date"]), reverse=True)
    best = min(latest, key=order, default=None)
    return None if best is None else (best, best.verdicts[claim])


class _Tables(Mapping[str, "pd.DataFrame"]):
    """The tables of a piece of evidence."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self._read = dict[str, "pd.DataFrame"]()

    def __getitem__(self, name: str) -> "pd.DataFrame":
        if name not in self._read:
            entry = self._evidence.content["tables"][name]
            file, rows = entry["file"], entry["rows"]
            if Path(file).name != file:
                raise ClaimError(f"the tables of evidence must be files beside it: {shown(file)}")
            table = read_table(self._evidence.path.with_name(file))
            if len(table) != rows:
                raise ClaimError(f"a table of evidence must be whole: {file} has {len(table)} of {rows} rows")
            self._read[name] = table
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._evidence.content["tables"])

    def __len__(self) -> int:
        return len(self._evidence.content["tables"])


def read_table(path: Path) -> "pd.DataFrame":
    """Read a table that a run or evidence has written; lists are read as lists.

    Raises:
        ClaimError: it does not exist or cannot be read.
    """
    import pandas as pd

    if not path.exists():
        rule = "evidence can be judged only with its tables, which are in the repository but not in an installed wheel"
        raise ClaimError(f"{rule}: {path.name} does not exist")
    try:
        readable(path, "a table of evidence", ClaimError)
        if path.suffix == ".parquet":
            table = pd.read_parquet(path)
            for name in table.select_dtypes("float32"):
                table[name] = _exact(table[name])
        else:
            table = pd.read_csv(path, low_memory=False)
        for name in table.select_dtypes(["object", "str"]):
            texts = table[name].astype(str)
            if len(texts) and (texts.str.startswith("[") & texts.str.endswith("]")).all():
                table[name] = texts.map(json.loads)
            else:
                table[name] = table[name].where(table[name].notna(), math.nan)  # which Parquet has as None
    except ClaimError:
        raise
    except Exception as error:  # whatever the readers raise of an altered file
        raise ClaimError(f"a table of evidence must be readable: {path.name}: {brief(str(error), 200)}") from None
    return table


def _without_places(command: str) -> str:
    """Return a command line without the folder of its results and its store, which are places on one machine."""
    try:
        words = shlex.split(command)
    except ValueError:  # a call in Python that is no command line
        return command
    if words[:1] != ["elegans"]:
        return command
    kept = [
        word
        for before, word in pairwise(["", *words])
        if not word.startswith(("--out", "--store")) and before not in ("--out", "--store")
    ]
    return shlex.join(kept)


def keep(result: "Result", study: str, options: Mapping[str, Any], folder: Path | None = None) -> Path:
    """Write the evidence of a run into its study's folder and return the JSON file.

    Numbers keep six digits; tables over 200 kB are Parquet. The verdicts are judged from the stored tables.
    The evidence of other trials or seeds that was there before moves to the folder ``earlier``.

    Raises:
        ClaimError: trials failed or were interrupted, or the folder cannot be written.
    """
    if result.failed or result.interrupted:
        raise ClaimError(
            f"evidence must come from a complete run: failed={result.failed}, interrupted={result.interrupted}"
        )
    from elegans.experiments.claims import judge
    from elegans.experiments.results import StoredResults

    folder = folder or discovery.study(study).folder / "evidence"
    stem = ".".join([result.experiment.name, result.scale, *(f"{name}={value}" for name, value in options.items())])
    record = {name: value for name, value in result.record.items() if name != "verdicts"}
    if "command" in record:
        record["command"] = _without_places(record["command"])
    single = len(result.tables) == 1
    stems = {name: stem if single else f"{stem}.{name}" for name in result.tables}
    path = folder / f"{stem}.json"
    store = result.results.store.place if isinstance(result.results, StoredResults) else None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file in (path, *(folder / f"{each}{end}" for each in stems.values() for end in (".csv", ".parquet"))):
            writable(file, "evidence", ClaimError, store)
        _set_aside(path, record)
        kept = {name: _write_table(table, folder / f"{stems[name]}.csv") for name, table in result.tables.items()}
        content: dict[str, Any] = {
            "schema": SCHEMA,
            "experiment": result.experiment.name,
            "study": study,
            "scale": result.scale,
            "setting": result.experiment.setting(result.scale),
            "options": {name: str(value) for name, value in options.items()},
            "record": record,
            "verdicts": {},
            "tables": kept,
        }
        content["verdicts"] = judge(result.experiment.claims, Evidence(path, content).tables)
        write(path, content)
        for name in {"", *(f".{table}" for table in result.tables)}:
            for old in (f"{stem}{name}.csv", f"{stem}{name}.parquet"):
                if old not in [table["file"] for table in kept.values()]:
                    (folder / old).unlink(missing_ok=True)
    except OSError as error:
        raise ClaimError(f"evidence must be writable: {failure(error)}") from None
    return path


def _set_aside(path: Path, record: Mapping[str, Any]) -> None:
    """Move evidence to the folder ``earlier``, with its tables, if its trials or seeds differ from a record's.

    A damaged file stays: what is written replaces it.
    """
    try:
        content = _read(path).content if path.exists() else None
    except ClaimError:
        return
    same = ("identities", "first_seed")  # what only computes has no trials
    if content is None or all(content["record"].get(name) == record.get(name) for name in same):
        return
    folder = path.parent / EARLIER
    folder.mkdir(exist_ok=True)
    number = next(number for number in count(1) if not (folder / f"{path.stem}.{number}.json").exists())
    tables = {}
    for name, table in content["tables"].items():
        old = path.with_name(Path(table["file"]).name)
        tables[name] = {**table, "file": f"{old.stem}.{number}{old.suffix}"}
        if old.exists():
            old.replace(folder / tables[name]["file"])
    write(folder / f"{path.stem}.{number}.json", {**content, "tables": tables})


def write(path: Path, content: Mapping[str, Any]) -> None:
    """Write the JSON file of a piece of evidence."""
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    with replaced(writable(path, "evidence", ClaimError)) as draft:
        draft.write_text(text, encoding="utf-8", errors="backslashreplace")
    of_folder.cache_clear()


def _write_table(table: "pd.DataFrame", path: Path) -> dict[str, Any]:
    import pandas as pd

    text = table.to_csv(index=False, float_format="%.6g")
    small = len(text.encode()) <= LARGEST
    path = path if small else path.with_suffix(".parquet")
    with replaced(path) as draft:
        if small:
            draft.write_text(text, encoding="utf-8", errors="backslashreplace")
        else:
            rounded = pd.read_csv(io.StringIO(text), low_memory=False)
            floats = rounded.select_dtypes("float")
            numbers = [name for name in floats if floats[name].nunique() > len(floats) / REPEATS]
            encodings: dict[str, Any] = {
                "use_dictionary": [*rounded.columns.difference(numbers)],
                "use_byte_stream_split": numbers,
            }
            for name in floats:
                rounded[name] = _single(floats[name])
            rounded.to_parquet(draft, index=False, compression="zstd", compression_level=19, **encodings)
    return {"file": path.name, "rows": len(table)}


def _single(numbers: "pd.Series[float]") -> "pd.Series[float]":
    """Return numbers of six digits in single precision if that loses nothing, or else unchanged."""
    import numpy as np

    with np.errstate(over="ignore"):
        single = numbers.astype("float32")
    return single if _exact(single).equals(numbers) else numbers


def _exact(single: "pd.Series[float]") -> "pd.Series[float]":
    """Return numbers of six digits from their single precision, in double precision, as if read from text."""
    import numpy as np
    import pandas as pd

    numbers = single.to_numpy(float)
    with np.errstate(divide="ignore", invalid="ignore"):
        places = np.nan_to_num(5 - np.floor(np.log10(np.abs(numbers))), nan=0, posinf=0, neginf=0).astype(int)
    ten = np.array([float(f"1e{power}") for power in range(23)])  # exact, so that each division rounds once
    up, down = ten[places.clip(0, 22)], ten[(-places).clip(0, 22)]
    found = (numbers * up / down).round() / up * down
    far = np.abs(places) > 22
    found[far] = [float(f"{number:.6g}") for number in numbers[far]]
    return pd.Series(found, single.index, name=single.name)
