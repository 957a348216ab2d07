"""Sweeps of trials that cost next to nothing, and a process that runs one: ``python -m benchmarks.tiny``."""

import resource
import sys
import time
from pathlib import Path

import elegans as el
from elegans.stopping import StoppingRule

SIZES = (10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)
RATES = (0.01, 0.02, 0.05, 0.1, 0.2)


def sweep_of(trials: int) -> el.Sweep:
    """Return a sweep of one-step trials (a multiple of 100) in 100 cells."""
    training = el.SGD(steps=1, batch_size=8, stopping=StoppingRule(examples=16, every=1))
    base = el.Trial(
        task=el.SparseParity(n=10, k=2), regime=el.Sample(10), model=el.MLP(width=10), training=training, seed=0
    )
    axes = {"regime.size": SIZES, "training.learning_rate": RATES, "model.init": ["dense", "sparse:2"]}
    return el.grid(base, axes, seeds=trials // 100)


def main(trials: int, store: Path, workers: int) -> None:
    """Run the sweep into a store; print its seconds, and this process's peak memory in MB."""
    begun = time.perf_counter()
    table = el.run(sweep_of(trials), store=str(store), workers=workers)
    spent = time.perf_counter() - begun
    assert len(table) == trials, f"{len(table)} of {trials} trials"
    print(spent, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
