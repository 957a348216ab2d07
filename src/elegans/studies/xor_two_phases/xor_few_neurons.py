"""How few neurons must find the signal: all but a fraction start without any, and in some arms never get any.

Minibatch noise gives the others a signal later, unless they are held without one. Further arms freeze the output
weights, for comparison with the simultaneous growth of both layers.
"""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from elegans.analysis import finite_or_none, median
from elegans.experiments import Experiment, Results, Scale, Tables, Verdict, claim
from elegans.experiments.rules import LEVEL, by_pairs, by_share, combine, table
from elegans.models import MLP
from elegans.plots.marks import dots
from elegans.plots.style import COLOURS, figure_legend, panels, percent, title_figure, title_panels
from elegans.probes import Probe
from elegans.studies.xor_two_phases.models import DimmedSphereInit, HeldMLP
from elegans.studies.xor_two_phases.probes import XORMargins
from elegans.studies.xor_two_phases.rules import by_mean, groups
from elegans.studies.xor_two_phases.settings import THETA, UNPUBLISHED, trial
from elegans.sweeps import Sweep
from elegans.tasks import XOR
from elegans.training import SGD, LayerRates, Trial

SHARES = (1.0, 0.4, 0.1, 0.03)
FEW = 0.1
"""The fraction of neurons that decides, a tenth as in the proof."""
ERROR, LOSS = 0.01, 0.1
HEAVY = ("heavy_share", "heavy_mass")


def arms(n: int, width: int, trials: int, steps: int, shares: tuple[float, ...] = SHARES, few: float = FEW) -> Sweep:
    """Return each fraction with both layers trained, and with frozen output weights; then the arms that are held.

    In these the other neurons never have a signal: at a small fraction, with frozen output weights too, and at none.
    """
    base = trial(XOR(n=n), width=width, batch_size=round(n / THETA), steps=steps, every=5)
    cells = [base.replace("model.init", DimmedSphereInit(THETA, share=share)) for share in shares]
    rarely = base.replace("training.stopping.every", 20)
    held, none = (rarely.replace("model", _held(width, share)) for share in (few, 0.0))
    frozen = [cell.replace("training.layers", {"output": LayerRates(learning_rate=0.0)}) for cell in (*cells, held)]
    return Sweep.of([*cells, *frozen, held, none], trials)


def _held(width: int, share: float) -> HeldMLP:
    biases = {"hidden_bias": False, "output_bias": False}
    init = DimmedSphereInit(THETA, share=share)
    return HeldMLP(width=width, init=init, scaling="mean-field", share=share, **biases)


def probes(one: Trial) -> tuple[Probe, ...]:
    """Return probes of margins, loss and heavy neurons, measured whenever success is checked."""
    return (XORMargins(every=one.stopping.every),)


def analyse(results: Results) -> Tables:
    """Return one row per trial: ``share``, ``held``, ``frozen``, ``learned_at`` (error and loss are small), measures.

    ``heavy_share`` and ``heavy_mass`` are the shares of all neurons and of E||w||^2 of the neurons whose signal exceeds
    the rest, with ``_first`` where the signal dominates (NaN if it never does), else at the end.
    """
    runs = results.measures["xor-margins"].groupby("trial", sort=False)
    return {"table": pd.DataFrame([_row(results.trial(int(str(index))), run) for index, run in runs])}


def _row(one: Trial, run: pd.DataFrame) -> dict[str, Any]:
    assert isinstance(one.model, MLP) and isinstance(one.model.init, DimmedSphereInit)
    assert isinstance(one.training, SGD)
    learned = run.loc[(run["error"] <= ERROR) & (run["loss"] <= LOSS), "step"]
    first = run[run["dominance"] >= 10].head(1)
    return {
        "task.n": one.task.input_size,
        "model.width": one.model.width,
        "share": one.model.init.share,
        "held": isinstance(one.model, HeldMLP),
        "frozen": bool(one.training.layers),
        "seed": one.seed,
        "learned_at": float(learned.min()),
        "loss": float(run["loss"].iloc[-1]),
        **{f"{name}_first": float(first[name].min()) for name in HEAVY},
        **{name: float(run[name].iloc[-1]) for name in HEAVY},
    }


def plot(tables: Tables) -> Figure:
    """Draw the steps to a small loss, and the final mass of heavy neurons with their share, by fraction."""
    rows = tables["table"]
    free = rows[~rows["held"]] if "held" in rows else rows  # earlier runs have no networks that are held
    both, frozen = free[~free["frozen"]], free[free["frozen"]]
    held = rows.drop(free.index).query("share > 0 and not frozen")
    learns = bool(both["learned_at"].notna().any())
    figure, ((left, right),) = panels(1, 2, height=2.4)
    shares = sorted(free["share"].unique())
    for ax in (left, right):
        ax.set(xscale="log", xlabel="neurons that start with a signal")
        ax.set_xticks(shares, [f"{share:.0%}" for share in shares])
        ax.xaxis.set_minor_locator(NullLocator())
    dots(left, both["share"], both["learned_at"], spread=0.2, label="others get a signal from noise")
    if len(held):
        dots(left, held["share"], held["learned_at"], COLOURS[2], spread=0.2, shift=0.25, label="others never get one")
    left.set(
        ylabel=f"steps to a loss of {LOSS:g}",
        ylim=(0, 1.2 * both["learned_at"].max() if learns else None),
    )
    labels = {"heavy_mass": r"share of the mass $E\|w\|^2$", "heavy_share": "share of the neurons"}
    for number, (name, label) in enumerate(labels.items()):
        dots(right, both["share"], both[name], COLOURS[number], spread=0.2, shift=0.25 * number - 0.125, label=label)
    right.set(ylabel="heavy neurons at the end", ylim=(0, 1.05))
    percent(right)
    least = both[both["share"] == shares[0]]
    more = median(least["learned_at"].to_numpy(float)) / median(both.loc[both["share"] == 1, "learned_at"].to_numpy())
    reached = f"{int(frozen['learned_at'].notna().sum()) or 'none'} of {len(frozen)}"
    slower = f"A signal in {shares[0]:.0%} of the neurons takes {more:.2f} times as long"
    titles = slower if np.isfinite(more) else f"Steps to a loss of {LOSS:g}", "Heavy neurons take over"
    title_panels((left, right), titles)
    width, d = rows[["model.width", "task.n"]].iloc[0]
    title_figure(
        figure,
        "A few neurons with a signal are enough if both layers train"
        if learns
        else f"No run reaches a loss of {LOSS:g}",
        f"XOR of two of {d} signs; ReLU network with {width} neurons; one dot per run; with frozen output weights "
        f"{reached} runs learn",
    )
    figure_legend(figure, left, right, columns=2)
    return figure


def findings(tables: Tables) -> dict[str, Any]:
    """Return for each arm how many runs reach the loss, and when."""
    stated = {}
    for (held, frozen, share), runs in tables["table"].groupby(["held", "frozen", "share"]):
        names = ("learned_at", *HEAVY)
        medians = {name: finite_or_none(median(runs[name].to_numpy(float)), 4) for name in names}
        learned = f"{int(runs['learned_at'].notna().sum())} of {len(runs)}"
        arm = f"{share:g}, {'output weights stay' if frozen else 'both layers'}{', others held' * bool(held)}"
        stated[arm] = {"learned": learned, **medians}
    return stated


@claim(
    id="xor/few-neurons-suffice",
    statement="It suffices that a small fraction of the neurons finds the signal in the first phase: the growth of "
    "both layers amplifies them, and soon heavy neurons hold most of the network's mass.",
    source="abstract; section 4.1.1",
    setting="the proof has a tenth of the neurons for each cluster; smaller fractions are not covered",
    rule="10 runs each at d = 64, with 1024 neurons, theta = eta = 0.1, batches of 10d and 800 steps (our choice of "
    "sizes). A tenth of the neurons starts with a signal; the others start without and are held so: their signal part "
    "is projected out throughout training. (a) At the end, those of the tenth whose signal exceeds the rest hold more "
    "than 90% of E||w||^2 (t interval). (b) A majority of the runs reach an error of 1% and a loss of 0.1 within twice "
    "the time of networks all of whose neurons start with a signal (exact limits). (c) With frozen output weights they "
    "reach them later (sign test). (d) Of runs in which no neuron may have a signal, a majority do not reach them "
    "(exact limits). The four parts share an error rate of 2%, so 10 of 10 runs decide.",
    revised="The parts had an error rate of 2% each, and before that 5%. Then the other neurons only started without a "
    "signal, and the claim held, also on fresh seeds. But minibatch noise gave them one: over 90% of all neurons were "
    "heavy at the end, which is not few, and no run showed what happens without the few. The rule was changed after "
    "these tables had been seen. It asks for networks that had not been run, and the claim was undecided. Now they "
    "have been run, on new seeds, and it holds.",
)
def few_suffice(tables: Tables) -> Verdict:
    needs = "10 runs each at d = 64 with 1024 neurons, also of networks whose other neurons never get a signal"
    sizes: dict[str, Any] = {"task__n": 64, "model__width": 1024, "share": [1.0, FEW, 0.0], "held": [False, True]}
    rows = table(tables, "table", needs, **sizes)
    cells = groups(rows.sort_values("seed"), ["held", "frozen", "share"], 7, 10, needs)
    tenth, none, frozen = (cells[True, *key] for key in ((False, FEW), (False, 0.0), (True, FEW)))
    late, late_frozen = (runs["learned_at"].fillna(np.inf).to_numpy() for runs in (tenth, frozen))
    within = int((late <= 2 * cells[False, False, 1.0]["learned_at"].to_numpy()).sum())
    later = np.minimum(late_frozen, 1e9) - np.minimum(late, 1e9)
    level, share = LEVEL / 4, "their share of E||w||^2 at the end"
    unlearned = int(none["learned_at"].isna().sum())
    parts = {
        "mass of heavy neurons": by_mean(share, tenth["heavy_mass"], above=0.9, level=level),
        "a tenth of the neurons": by_share("runs that learn within twice the time", within, len(late), level=level),
        "both layers": by_pairs("output weights that stay are slower", later, level=level),
        "none of the neurons": by_share("runs that do not learn", unlearned, len(none), level=level),
    }
    return combine(parts)


EXPERIMENT = Experiment(
    name="xor-few-neurons",
    shows="Networks learn the XOR nearly as fast if only a tenth of the neurons starts with a signal, and both layers "
    "train",
    source="abstract and section 4.1.1, no figure",
    scales={
        "smoke": Scale(lambda trials: arms(16, 64, trials, 100, (1.0, 0.4), 0.4), trials=1),
        "laptop": Scale(lambda trials: arms(32, 256, trials, 400), trials=5),
        "paper": Scale(lambda trials: arms(64, 1024, trials, 800), trials=10, part=UNPUBLISHED),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    probes=probes,
    claims=[few_suffice],
)
