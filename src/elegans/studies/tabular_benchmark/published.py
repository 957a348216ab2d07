"""The published errors on the benchmark's 16 tasks."""

from dataclasses import dataclass

from elegans.tabular.datasets import BENCHMARK, benchmark_task

FORESTS = 90
"""The number of forests on the published grid, from which the errors of forests are selected."""
LABELS = {1.0: "full", 0.1: "10%", 0.01: "1%"}
"""The fractions of the training pool in the published table."""


@dataclass(frozen=True)
class Published:
    """Median test errors of one task over 100 trials, in percent.

    Args:
        network: of the best network, by fraction of the pool: 1, 0.1 and 0.01.
        forest: the same for the best random forest.
        benchmark_network: of the benchmark's tuned MLP, on the full data.
        benchmark_forest: of its tuned random forest.
        benchmark_best: of its best model.
    """

    network: dict[float, float]
    forest: dict[float, float]
    benchmark_network: float
    benchmark_forest: float
    benchmark_best: float


_TABLE = (
    (24.5, 27.8, 34.2, 22.0, 22.9, 24.8, 22.9, 23.6, 22.5),
    (18.9, 23.2, 25.1, 15.4, 18.0, 23.0, 23.6, 13.7, 12.8),
    (6.3, 13.7, 23.2, 19.1, 18.9, 21.4, 21.6, 17.1, 17.1),
    (1.4, 4.2, 12.3, 2.1, 4.0, 10.0, 6.3, 1.9, 1.7),
    (12.7, 14.9, 20.0, 12.4, 13.9, 17.4, 12.1, 12.0, 11.1),
    (14.6, 16.5, 23.1, 14.8, 16.8, 21.9, 14.6, 14.5, 13.9),
    (20.2, 21.8, 25.9, 19.7, 21.1, 25.2, 20.9, 20.1, 19.5),
    (7.2, 10.0, 14.4, 7.7, 8.6, 10.5, 6.7, 7.3, 6.2),
    (26.1, 28.7, 33.7, 28.5, 28.7, 29.9, 31.4, 29.1, 28.6),
    (39.9, 43.9, 46.3, 35.8, 43.0, 47.8, 41.8, 34.8, 33.4),
    (39.1, 39.3, 40.7, 39.1, 39.4, 40.6, 39.5, 39.5, 39.4),
    (23.0, 26.1, 28.7, 22.0, 23.8, 27.2, 25.5, 22.7, 22.0),
    (28.7, 30.1, 33.5, 28.2, 29.2, 31.9, 28.9, 28.0, 28.0),
    (19.5, 28.9, 37.6, 22.2, 29.2, 39.8, 23.4, 20.5, 20.5),
    (12.2, 14.8, 20.8, 11.2, 13.8, 18.4, 12.9, 10.6, 9.7),
    (27.1, 28.0, 31.3, 27.8, 28.6, 31.0, 27.8, 28.1, 27.4),
)


def _published(row: tuple[float, ...]) -> Published:
    networks, forests, benchmark = row[:3], row[3:6], row[6:]
    return Published(dict(zip(LABELS, networks, strict=True)), dict(zip(LABELS, forests, strict=True)), *benchmark)


PUBLISHED = {task.number: _published(row) for task, row in zip(BENCHMARK, _TABLE, strict=True)}
"""The errors by task number.

Source: Pareto frontiers, table 2; its last three columns come from Grinsztajn, Oyallon and Varoquaux (2022).
"""


def published(name: str) -> Published | None:
    """Return the published errors of a table, or of the whole table that contains it; None for other tables."""
    task = benchmark_task(name)
    return None if task is None else PUBLISHED[task.number]
