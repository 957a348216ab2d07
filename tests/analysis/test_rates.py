"""Best learning rates of known curves, and the regret of another width's."""

import numpy as np
import pytest

from elegans.analysis import best_rate, grid_optimum, transfer_regret
from elegans.errors import AnalysisError

RATES = 2.0 ** np.arange(-6, 3)


def parabolas(centre, seeds=10, noise=0.0):
    generator = np.random.default_rng(0)
    logs = (np.log2(RATES) - centre) ** 2 / 4
    return np.exp(logs + noise * generator.normal(size=(seeds, len(RATES))))


def test_the_optimum_of_a_parabola_is_exact():
    assert np.log2(grid_optimum(RATES, parabolas(-1.7)[0])) == pytest.approx(-1.7)


def test_the_optimum_of_noisy_parabolas_lies_in_its_interval():
    best = best_rate(RATES, parabolas(-1.7, noise=0.1), generator=np.random.default_rng(1))
    assert best.low < 2**-1.7 < best.high < 2 * best.low
    assert best.undefined == 0


@pytest.mark.parametrize("centre", [-7, 4])
def test_an_optimum_on_the_edge_of_the_grid_is_refused(centre):
    with pytest.raises(AnalysisError, match=r"inside of the grid: rates=0\.015625 to 4"):
        best_rate(RATES, parabolas(centre), generator=np.random.default_rng(0))


def test_diverged_trainings_leave_the_grids_own_rate():
    losses = parabolas(-2.0)
    losses[0, 5:] = np.inf
    assert np.log2(grid_optimum(RATES, losses.mean(axis=0))) == -2
    assert np.isnan(grid_optimum(RATES, np.full(len(RATES), np.inf)))


def test_regret_is_the_excess_log_loss_at_the_bases_best_rate():
    losses, base = parabolas(-1.0)[0], parabolas(-3.0)[0]
    assert transfer_regret(losses, losses) == 0
    assert transfer_regret(losses, base) == pytest.approx(1)
    losses[3] = np.nan
    assert transfer_regret(losses, base) == np.inf


def test_uneven_grids_are_refused():
    with pytest.raises(AnalysisError, match="evenly spaced on a logarithmic axis"):
        grid_optimum(np.array([1.0, 2, 3]), np.ones(3))
