"""Errors of the best network and the best random forest on 16 tables, beside the published ones (table 2)."""

from functools import partial
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from elegans.experiments.base import Experiment, Scale
from elegans.plots import figure_of
from elegans.studies.tabular_benchmark.comparisons import errors, probes, selected
from elegans.studies.tabular_benchmark.plots import tabular_errors
from elegans.studies.tabular_benchmark.published import LABELS, published
from elegans.studies.tabular_benchmark.settings import laptop, paper, smoke
from elegans.tabular.datasets import benchmark_task

BY = ("table", "reduced", "part", "rows", "fraction", "learner")
"""What makes a row: on each a network is selected, and a forest."""
SELECTED = ("model", "error", "low", "high")


def analysis(trials: pd.DataFrame) -> pd.DataFrame:
    """Return a row a table, part and learner: the models selected by both rules, beside the published error.

    Returns:
        ``number`` of the benchmark's task, missing for other tables; ``table``; ``reduced``, whether it is a part of
        the benchmark's; ``part``: ``full``, ``10%``, ``1%``, or the number of rows where the scale allows no more;
        ``rows`` and ``fraction`` of the sample; ``learner``; ``models``, how many there are to select from; ``trials``;
        ``model``, ``error``, ``low`` and ``high`` of the one with the smallest median test error, as published;
        ``honest_model`` and so on of the one with the smallest median error on the validation rows; ``published``, the
        error of the same learner, on the full data where the part is a number of rows. Errors in percent.
    """
    each = errors(trials)
    largest = each.groupby("table")["rows"].transform("max")
    parts = [_part(*row) for row in zip(each["fraction"], each["rows"], each["rows"] == largest, strict=True)]
    each = each.assign(part=parts)
    each = each[each["part"] != ""]
    found, honest = (selected(each, rule, BY) for rule in ("test_error", "validation_error"))
    renamed = {name: f"honest_{name}" for name in SELECTED}
    found = found.merge(honest[[*BY, *SELECTED]].rename(columns=renamed), on=list(BY))
    numbers = [str(name) for name in found if str(name).rpartition("_")[2] in ("error", "low", "high")]
    found[numbers] = (100 * found[numbers]).round(2)
    tasks = [benchmark_task(name) for name in found["table"]]
    found.insert(0, "number", pd.Series([task.number if task else None for task in tasks], dtype="Int64"))
    found["published"] = [_published(*row) for row in zip(found["table"], found["learner"], found["part"], strict=True)]
    return found.sort_values(
        ["number", "table", "rows"], kind="stable", ascending=[True, True, False], ignore_index=True
    )


def _part(fraction: float, rows: int, is_largest: bool) -> str:
    """Return the column of the published table that a sample belongs to, or nothing."""
    return LABELS.get(fraction) or (f"{rows} rows" if is_largest else "")


def _published(name: str, learner: str, part: str) -> float | None:
    known = published(name)
    if known is None:
        return None
    fraction = next((fraction for fraction, label in LABELS.items() if label == part), 1.0)
    return (known.network if learner == "network" else known.forest)[fraction]


def plot(table: pd.DataFrame) -> Figure:
    """Draw a panel a part, with a line a table."""
    return figure_of(tabular_errors(table))


def findings(table: pd.DataFrame) -> dict[str, Any]:
    """Return the table, how far the two rules differ, and how far ours are from what was published on whole tables.

    ``optimism`` is the median of the honestly selected error less the error that was itself selected by.
    """
    gap = table["honest_error"] - table["error"]
    whole = table[~table["reduced"] & table["part"].isin(list(LABELS.values())) & table["published"].notna()]
    from_published = whole["error"] - whole["published"]
    columns = [
        "number",
        "table",
        "part",
        "rows",
        "learner",
        "error",
        "low",
        "high",
        "honest_error",
        "published",
        "model",
    ]
    return {
        "optimism": {
            str(learner): round(float(values.median()), 2) for learner, values in gap.groupby(table["learner"])
        },
        "ours_less_published": {
            f"{learner}, {part}": {"tables": len(values), "median": round(float(values.median()), 2)}
            for (learner, part), values in from_published.groupby([whole["learner"], whole["part"]])
        },
        "rows": table[columns].astype(object).where(table[columns].notna(), None).to_dict("records"),
    }


FRACTIONS = tuple(LABELS)
EXPERIMENT = Experiment(
    name="tabular-table",
    shows="The best network beside the best random forest on each table, selected as published and honestly",
    source="table 2",
    scales={
        "smoke": Scale(partial(smoke, fractions=(1, 0.1)), trials=2, time="about 15 seconds"),
        "laptop": Scale(
            partial(laptop, fractions=FRACTIONS),
            trials=10,
            time="nothing beside tabular-frontier's store, else as long",
        ),
        "paper": Scale(partial(paper, fractions=FRACTIONS), trials=100, time="months on 2 cores; needs the 16 tables"),
    },
    analysis=analysis,
    plot=plot,
    findings=findings,
    probes=probes,
    outcomes=True,
    partial=True,
)
