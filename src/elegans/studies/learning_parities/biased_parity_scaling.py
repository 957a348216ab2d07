"""The separation measured: what networks cost on biased parities as k grows, beside what linear predictors must cost.

Sizes are n = 16 k + 1, where Theorem 2 applies. Networks are those of ``biased-parity``: the theorem's first step, then
Adam on fresh minibatches; their width is the same at every k, so that steps times width grows as steps do. At k = 3
random ReLU features in growing number show where a linear predictor succeeds.

Source: Daniely and Malach (2020), sections 1, 1.1 and 3; the paper has no experiment.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from elegans.analysis import finite_or_none, median, scaling_exponent
from elegans.experiments import Experiment, InsufficientData, Results, Scale, Tables, Verdict, claim
from elegans.experiments.checks import check
from elegans.experiments.claims import FAILS, HOLDS
from elegans.experiments.rules import LEVEL, ROUNDING, by_checks, decided, table
from elegans.models import MLP, GaussianInit, RandomReLU
from elegans.plots.style import COLOURS, GREY, figure_legend, logarithmic, panels, title_panels
from elegans.probes import Probe
from elegans.stopping import StoppingRule
from elegans.studies.learning_parities.probes import ComponentLosses
from elegans.studies.learning_parities.training import FirstStep
from elegans.sweeps import Sweep
from elegans.tasks import BiasedParity, Online
from elegans.training import Adam, Trial

SEPARATION = "parities/exponential-separation"
SOLVED = 0.05
"""The hinge loss at which a network has learned the parity."""
RATES = (0.01, 0.03, 0.1)
STEPS = {3: (5, 4000), 5: (20, 8000), 7: (40, 16_000), 9: (80, 20_000), 11: (160, 20_000)}
"""By k, how many steps lie between two looks, and the largest number of steps."""
SEEDS, WIDTH = 10, 256
FEATURES = (64, 256, 1024, 4096, 16_384)
GAP = 4.0
"""The difference of AIC from which one fit counts as better than another."""
RESAMPLES = 1000
NEEDS = "10 trials at every k from 3 to 11, solved with some step size: elegans run biased-parity-scaling --scale paper"


def _trial(k: int, model: MLP | RandomReLU, rate: float, every: int, steps: int) -> Trial:
    stopping = StoppingRule(error=0.005, every=every, consecutive=2)
    training = Adam(learning_rate=rate, loss="hinge", steps=steps, batch_size=256, stopping=stopping)
    task = BiasedParity(n=16 * k + 1, k=k, support=tuple(range(k)))
    return Trial(task=task, regime=Online(), model=model, training=training)


def networks(degrees: Sequence[int], rates: Sequence[float], width: int, trials: int) -> Sweep:
    """Return networks of one width at several k, with several step sizes."""
    model = MLP(width=width, init=FirstStep(), activation="relu6", output_bias=False)
    return Sweep(tuple((_trial(k, model, rate, *STEPS[k]), range(trials)) for k in degrees for rate in rates))


def predictors(features: Sequence[int], steps: int, trials: int) -> Sweep:
    """Return linear predictors on random ReLU features, in several numbers, at k = 3."""
    models = (RandomReLU(width=count, init=GaussianInit()) for count in features)
    return Sweep(tuple((_trial(3, model, 0.01, steps // 20, steps), range(trials)) for model in models))


def probes(one: Trial) -> tuple[Probe, ...]:
    """Return a probe of the hinge loss, measured whenever success is checked."""
    return (ComponentLosses(every=one.stopping.every, examples=10_000 if isinstance(one.model, MLP) else 4000),)


def analyse(results: Results) -> Tables:
    """Return ``table``, one row per trial, and ``checks``, the growth of what Theorem 2 demands.

    ``size`` is the number of neurons or features, ``steps`` those to a hinge loss of 0.05 (NaN where it is not
    reached), ``hinge`` the smallest loss.
    """
    taken = results.measures["component-losses"]
    rows = [_row(results.trial(int(str(place))), run) for place, run in taken.groupby("trial", sort=False)]
    return {"table": pd.DataFrame(rows), "checks": pd.DataFrame(list(_growth()))}


def _row(one: Trial, run: pd.DataFrame) -> dict[str, Any]:
    assert isinstance(one.task, BiasedParity) and isinstance(one.training, Adam)
    assert isinstance(one.model, MLP | RandomReLU)
    return {
        "learner": "network" if isinstance(one.model, MLP) else "random ReLU features",
        "k": one.task.k,
        "n": one.task.n,
        "size": one.model.width,
        "learning_rate": one.training.learning_rate,
        "seed": one.seed,
        "steps": run.loc[run["hinge"] <= SOLVED, "step"].min(),
        "hinge": run["hinge"].min(),
    }


def demanded(k: Float[np.ndarray, " degrees"]) -> dict[str, Float[np.ndarray, " degrees"]]:
    """Return log2 of the smallest sqrt(N) B for a hinge loss of 1/4 at n = 16 k, by either bound.

    Args:
        k: sizes of the parity.
    """
    pairs = np.array([math.comb(16 * int(one), int(one)) for one in k], float)
    return {"Theorem 2": k + math.log2(math.sqrt(2) / 4), "the sharper bound": np.log2(pairs) / 2 - 1}


def _growth() -> Iterator[dict[str, Any]]:
    """Yield how slowly the smallest sqrt(N) B for a hinge loss of 1/4 grows per unit of k."""
    odd = np.arange(3, 60, 2, dtype=float)
    for name, logs in demanded(odd).items():
        yield check(SEPARATION, f"log2 slope of sqrt(N) B in k by {name}, negated", -np.diff(logs) / 2, -1 + ROUNDING)


def fastest(rows: pd.DataFrame) -> dict[int, tuple[float, np.ndarray]]:
    """Return by k the step size with the smallest median among those that solve every trial, and its trials' steps.

    Args:
        rows: the networks' rows of the table.
    """
    found = {}
    for k, own in rows.groupby("k"):
        times = {float(str(rate)): each["steps"].to_numpy(float) for rate, each in own.groupby("learning_rate")}
        solved = {rate: each for rate, each in times.items() if np.isfinite(each).all()}
        if solved:
            best = min(solved, key=lambda rate: float(np.median(solved[rate])))
            found[int(str(k))] = best, solved[best]
    return found


def _misfit(x: np.ndarray, logs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a line's sum of squared residuals over all trials, and its values, of each row of logarithms."""
    slope, intercept = np.polyfit(x, logs.T, 1)[..., None]
    fitted = slope * x + intercept
    return ((logs - fitted) ** 2).sum(axis=-1), fitted


def compared(times: Mapping[int, np.ndarray]) -> dict[str, Any]:
    """Return by how much a power of k fits the logarithms of steps better than an exponential, by AIC.

    ``p`` is how often the exponential, and ``p_exponential`` how often the power, would by chance look as much worse
    than it does: deviations of trials from the mean of their k are resampled around the fit.

    Args:
        times: the steps of every trial, by k.
    """
    k = np.concatenate([np.full(len(own), float(one)) for one, own in times.items()])
    logs = np.log(np.concatenate(list(times.values())))
    noise = np.concatenate([np.log(own) - np.log(own).mean() for own in times.values()])
    noise = noise * math.sqrt(len(noise) / (len(noise) - len(times)))
    (power, by_power), (exponential, by_exponential) = _misfit(np.log(k), logs), _misfit(k, logs)

    def gaps(values: np.ndarray) -> np.ndarray:
        return np.asarray(len(k) * np.log(_misfit(k, values)[0] / _misfit(np.log(k), values)[0]))

    generator = np.random.default_rng(0)
    gap = len(k) * math.log(exponential / power)
    drawn = {
        name: gaps(fitted + generator.choice(noise, (RESAMPLES, len(noise))))
        for name, fitted in (("power", by_power), ("exponential", by_exponential))
    }
    return {
        "aic_exponential_less_power": gap,
        "p": float(((drawn["exponential"] >= gap).sum() + 1) / (RESAMPLES + 1)),
        "p_exponential": float(((drawn["power"] <= gap).sum() + 1) / (RESAMPLES + 1)),
    }


@claim(
    id="parities/exponential-separation",
    statement="To approximate the family a linear method needs a number of features or a norm that grows "
    "exponentially, while network size and steps are polynomial.",
    source="sections 1, 1.1 and 3",
    setting="no numbers; exponential in k, for k <= n/16; Theorem 3 has k <= O(n^(1/10)). Ours: k = 3 to 11",
    rule="Fails if the least sqrt(N) B for a hinge loss of 1/4 grows by less than a factor 2 per unit of k at n = 16 "
    "k, by either bound. Steps to a loss of 0.05 of networks of 256 neurons at n = 16 k + 1, k = 3, 5, 7, 9 and 11, 10 "
    "trials, at the best of three step sizes that solve all, are fitted by a power of k and by an exponential, on the "
    "logarithm. Holds if the power's AIC is lower by 4 or more, and an exponential would show such a difference with p "
    "below 5% while a power would with more; fails in the reverse case; else undecided. Five values of k tell these "
    "two apart, not a power from all that grows faster.",
    revised="The rule first measured the linear side alone and left the claim undecided, since no networks were run. "
    "The fit was written before any judged training; step sizes and limits were chosen on other seeds.",
)
def separation(tables: Tables) -> Verdict:
    """Decide the linear side by its bounds, the network's by whether a power or an exponential of k fits its steps."""
    linear = by_checks(tables, claim=SEPARATION)
    if linear.verdict != HOLDS:
        return Verdict(FAILS, linear.because, linear.numbers)
    rows = table(tables, "table", NEEDS, learner="network", size=WIDTH, k=list(STEPS))
    times = {k: own for k, (_, own) in fastest(rows).items()}
    if set(times) != set(STEPS) or min(map(len, times.values())) < SEEDS:
        raise InsufficientData(NEEDS)
    fit = scaling_exponent(
        {k: own.tolist() for k, own in times.items()}, generator=np.random.default_rng(0), resamples=RESAMPLES
    )
    found = compared(times)
    gap = found["aic_exponential_less_power"]
    numbers = {
        **linear.numbers,
        "exponent": {"estimate": fit.exponent, "interval": [fit.low, fit.high]},
        "median steps": {f"k = {k}": float(np.median(own)) for k, own in times.items()},
        **found,
    }
    because = (
        f"linear methods need sqrt(N) B to grow by at least a factor 2 per unit of k; networks' steps grow as k to the "
        f"{fit.exponent:.2f} ({fit.low:.2f} to {fit.high:.2f}), whose AIC is lower than an exponential's by {gap:.1f}"
    )
    exponential, power = found["p"] > LEVEL, found["p_exponential"] > LEVEL
    yes, no = gap >= GAP and power and not exponential, gap <= -GAP and exponential and not power
    return decided(yes, no, because, numbers, LEVEL, "more trials, or larger k")


def plot(tables: Tables) -> Figure:
    """Draw the networks' steps against k with both fits and what linear predictors demand; and losses against N."""
    rows = tables["table"]
    figure, ((left, middle, right),) = panels(1, 3, height=2.7)
    times = {k: own for k, (_, own) in fastest(rows[rows["learner"] == "network"]).items()}
    _steps(left, times)
    _growths(middle, times)
    _features(right, rows[rows["learner"] != "network"])
    findings = ("Steps grow as a power of k", "Linear cost grows faster", "Random features fail at k = 3")
    title_panels((left, middle, right), findings)
    figure_legend(figure, left, middle, right)
    return figure


def _steps(ax: Axes, times: Mapping[int, np.ndarray]) -> None:
    for size, own in times.items():
        ax.plot(np.full(len(own), size), own, "o", color=COLOURS[0], markersize=3, alpha=0.5)
    ax.set(xscale="log", yscale="log")
    if len(times) > 1:
        k = np.concatenate([np.full(len(own), float(one)) for one, own in times.items()])
        logs = np.log(np.concatenate(list(times.values())))
        at = np.geomspace(k.min(), k.max(), 50)
        fits: dict[str, tuple[Callable[[Any], Any], str]] = {
            "power of k": (np.log, "-"),
            "exponential in k": (np.asarray, ":"),
        }
        for name, (of, style) in fits.items():
            fitted = np.exp(np.polyval(np.polyfit(of(k), logs, 1), of(at)))
            ax.plot(at, fitted, style, color=GREY, linewidth=1.1, label=name)
    ax.set_xticks(list(times), [str(k) for k in times])
    ax.xaxis.set_minor_locator(NullLocator())
    logarithmic(ax)
    ax.set(xlabel="size k of the parity", ylabel=f"steps to a hinge loss of {SOLVED:g}")


def _growths(ax: Axes, times: Mapping[int, np.ndarray]) -> None:
    """Draw costs relative to those at the smallest k."""
    k = np.array(list(times), float)
    if len(k):
        middles = np.array([np.median(own) for own in times.values()])
        ax.plot(
            k, middles / middles[0], "o-", color=COLOURS[0], markersize=3.5, label=r"network: steps $\times$ neurons"
        )
        for (name, logs), style in zip(demanded(k).items(), ("s--", "^--"), strict=True):
            ax.plot(
                k,
                2.0 ** (logs - logs[0]),
                style,
                color=COLOURS[1],
                markersize=3.5,
                label=rf"linear $\sqrt{{N}} B$, {name}",
            )
    logarithmic(ax)
    ax.set_xticks(k, [f"{one:g}" for one in k])
    ax.set(xlabel="size k of the parity", ylabel=f"cost relative to k = {k.min():g}" if len(k) else "relative cost")


def _features(ax: Axes, rows: pd.DataFrame) -> None:
    ax.plot(rows["size"], rows["hinge"], "o", color=COLOURS[1], markersize=3, alpha=0.6)
    ax.axhline(SOLVED, color=GREY, linewidth=0.8, linestyle=":")
    ax.set_xscale("log", base=4)
    counts = sorted(rows["size"].unique())
    ax.set_xticks(counts, [f"{count:,}" for count in counts], rotation=30)
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_ylim(bottom=0)
    ax.set(xlabel="number N of features", ylabel="smallest hinge loss")


def findings(tables: Tables) -> dict[str, Any]:
    """Return medians of steps for each k and step size, and of the smallest loss for each number of features."""
    rows = tables["table"]
    found: dict[str, Any] = {}
    for (learner, k, size, rate), own in rows.groupby(["learner", "k", "size", "learning_rate"]):
        name = f"k = {k}, step size {rate:g}" if learner == "network" else f"N = {size}"
        found.setdefault(str(learner), {})[name] = {
            "trials": len(own),
            "solved": int(own["steps"].notna().sum()),
            "median_steps": finite_or_none(median(own["steps"].to_numpy(float)), 4),
            "hinge": finite_or_none(float(own["hinge"].median()), 4),
        }
    return found


EXPERIMENT = Experiment(
    name="biased-parity-scaling",
    shows="On biased parities a network's cost grows as a power of k, that of linear predictors exponentially",
    source="sections 1, 1.1 and 3 (which the paper does not simulate)",
    scales={
        "smoke": Scale(
            lambda trials: networks((3, 5), RATES[2:], 64, trials) + predictors(FEATURES[:2], 200, trials), trials=1
        ),
        "laptop": Scale(
            lambda trials: networks((3, 5, 7), RATES[2:], WIDTH, trials) + predictors(FEATURES[:3], 2000, trials),
            trials=3,
        ),
        "paper": Scale(
            lambda trials: networks(tuple(STEPS), RATES, WIDTH, trials) + predictors(FEATURES, 4000, min(trials, 3)),
            trials=SEEDS,
        ),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    probes=probes,
    claims=[separation],
)
