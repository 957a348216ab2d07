"""The time for the theory of all built-in groups up to order 120: tables, irreps, games and optima, from scratch.

Each repetition is a fresh process on one core, so that nothing is cached; the interpreter's start and the imports are
not counted.
"""

import json
import os
import subprocess
import sys
import time
from statistics import median

from benchmarks.measure import spread
from benchmarks.record import Result, at_most

LARGEST_ORDER = 120
LIMIT = 10.0
PENALTY = 1e-7
FAMILIES = {
    "cyclic": [f"Z{n}" for n in range(2, 121)],
    "dihedral": [f"D{n}" for n in range(3, 61)],
    "symmetric": [f"S{n}" for n in range(2, 6)],
    "alternating": [f"A{n}" for n in range(3, 6)],
    "Z2^k": [f"Z2^{k}" for k in range(2, 7)],
    "products": ["S3xZ2", "S4xZ2", "S3xS3", "S3xZ3", "A4xZ2", "D4xZ2", "S3xD4", "S4xZ3", "S4xZ5", "A5xZ2", "S3xS3xZ2"],
}


def run(*, quick: bool) -> Result:
    """Measure fresh processes, one after the other."""
    repetitions = 1 if quick else 5
    taken = [_in_a_process() for _ in range(repetitions)]
    together = [sum(each.values()) for each in taken]
    rows = [
        {"groups": family, "how many": len(names), "seconds": spread([each[family] for each in taken])}
        for family, names in FAMILIES.items()
    ]
    how_many = sum(len(names) for names in FAMILIES.values())
    return Result(
        settings={"families": FAMILIES, "penalty": PENALTY, "repetitions": repetitions},
        repetitions={"seconds": taken},
        summary=[*rows, {"groups": "all", "how many": how_many, "seconds": spread(together)}],
        targets=[at_most(f"theory of {how_many} groups up to order 120", median(together), LIMIT, " s")],
    )


def _in_a_process() -> dict[str, float]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "benchmarks.groups"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def all_families() -> dict[str, float]:
    """Return the seconds that the theory of each family takes in this process."""
    found = {}
    for family, names in FAMILIES.items():
        begun = time.perf_counter()
        for name in names:
            everything(name)
        found[family] = time.perf_counter() - begun
    return found


def everything(name: str) -> None:
    """Compute the theory of a group: its largest margin, and the exact optimum under a penalty."""
    import elegans as el

    group, theory = el.Group.parse(name), el.theory
    assert group.order <= LARGEST_ORDER
    theory.margin_game(group)
    theory.group_width(group)
    theory.group_penalised_optimum(group, PENALTY)
    theory.group_penalty_threshold(group)
    is_real = all(irrep.indicator == 1 for irrep in group.irreps)
    if is_real and (theory.group_positivity(group)[1:] < 0).all():
        theory.group_maximum_margin(group)
        theory.group_weighting(group)
        theory.group_shares(group)
        theory.group_penalty_crossings(group)


if __name__ == "__main__":
    from elegans.studies.feature_margins.theory import groups  # noqa: F401

    print(json.dumps(all_families()))
