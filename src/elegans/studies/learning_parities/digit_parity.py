"""The parity of a strip of digits: figure 1 of "Learning Parities with Neural Networks".

The label of a strip of k digits is the parity of their sum. With k = 1 the task is a form of recognition; with k = 3 no
single digit carries information. A network with 512 ReLU neurons is compared with three predictors that are linear in
their trained parameters: the same network with its gates frozen, random ReLU features, and random Fourier features.

Choices: logistic loss; AdaDelta with its usual rho = 0.95, epsilon = 1e-6 and learning rate 1; always fresh strips,
60000 per epoch, and at the largest scale also as many fixed ones; held-out strips of held-out images; pixels from 0 to
1; initial weights by fan-in; the frozen-gate network trains the inner weights and the output bias (training the outer
ones as well would not give a linear predictor, though one of the same class); the median distance as bandwidth.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from elegans import random
from elegans.experiments import Experiment, Results, Scale, Tables
from elegans.models import MLP, GatedLinear, Model, RandomFourier, RandomReLU
from elegans.plots.marks import bands
from elegans.plots.style import GREY, SMALL, panels, percent, title_panels
from elegans.probes import HeldOutErrorRate, Probe, TrainErrorRate
from elegans.stopping import StoppingRule
from elegans.studies.learning_parities.digit_parity_claims import CLAIMS
from elegans.sweeps import Sweep
from elegans.tasks import DigitParity, Online, Sample
from elegans.tasks.images import load_images, strip
from elegans.training import AdaDelta, LayerRates, Trial

WIDTH = 512
BATCH = 128
MODELS: dict[str, Model] = {
    "network": MLP(width=WIDTH),
    "frozen gates (NTK)": GatedLinear(width=WIDTH),
    "random ReLU features": RandomReLU(width=WIDTH),
    "random Fourier features (RBF)": RandomFourier(width=WIDTH),
}
"""The models compared, in words."""
FIXED = {"output.weight": LayerRates(learning_rate=0.0)}
"""What keeps the frozen-gate network linear in its trained parameters."""
LOOKED_AT = 64
"""The number of held-out strips searched for an even and an odd one to show."""


def trial(k: int, model: Model, images: str, strips: int, epochs: int) -> Trial:
    """Return the training of one model on strips of k digits, evaluated once per epoch.

    Args:
        k: how many digits a strip has.
        model: the model.
        images: the digits, as for ``DigitParity``.
        strips: the number per epoch, all fresh.
        epochs: the number of epochs.
    """
    epoch = -(-strips // BATCH)
    training = AdaDelta(
        steps=epochs * epoch,
        batch_size=BATCH,
        loss="logistic",
        layers=FIXED if isinstance(model, GatedLinear) else {},
        stopping=StoppingRule(error=0.25, examples=10_000, every=epoch, stop=False),
    )
    return Trial(task=DigitParity(k=k, images=images), regime=Online(), model=model, training=training)


def models(images: str, strips: int, epochs: int, trials: int) -> Sweep:
    """Return the four models at k = 3 and at k = 1."""
    cells = (trial(k, model, images, strips, epochs) for k in (3, 1) for model in MODELS.values())
    return Sweep.of(cells, trials)


def paper(trials: int) -> Sweep:
    """Return 20 epochs on MNIST, for three digits also on fixed strips; refused if MNIST is not available."""
    load_images("mnist")
    fixed = (trial(3, model, "mnist", 60_000, 20).replace("regime", Sample(60_000)) for model in MODELS.values())
    return models("mnist", 60_000, 20, trials) + Sweep.of(fixed, trials)


def probes(one: Trial) -> tuple[Probe, ...]:
    """Return probes of the two errors, measured once per epoch."""
    assert one.training is not None
    every = one.training.stopping.every
    return TrainErrorRate(every=every), HeldOutErrorRate(every=every)


def analyse(results: Results) -> Tables:
    """Return accuracies on the first strips trained on and on held-out ones: one row per trial and epoch."""
    train, test = (results.measures[f"{kind}-error"] for kind in ("train", "test"))
    errors = train.merge(test, on=["trial", "seed", "step"], suffixes=("_train", "_test"))
    accuracies = pd.DataFrame({f"{kind}_accuracy": 1 - errors[f"error_{kind}"] for kind in ("train", "test")})
    trials = pd.DataFrame([_described(results.trial(index)) for index in results.trials.index], results.trials.index)
    table = trials.assign(seconds=results.trials["seconds"]).loc[errors["trial"]].reset_index(drop=True)
    epoch = (errors["step"] / table.pop("every")).round(2)
    return {"table": table.assign(seed=errors["seed"], epoch=epoch, **accuracies)}


def _described(one: Trial) -> dict[str, Any]:
    assert isinstance(one.task, DigitParity) and one.training is not None
    model = next(name for name, model in MODELS.items() if model == one.model)
    strips = "fresh" if isinstance(one.regime, Online) else "fixed"
    every = one.training.stopping.every
    return {"images": one.task.images, "k": one.task.k, "model": model, "strips": strips, "every": every}


def plot(tables: Tables) -> Figure:
    """Draw the accuracies against epochs, one panel for each k, with an even and an odd held-out strip below.

    Lines are medians over trials, bands the range of the held-out accuracies where there are several.
    """
    table = tables["table"][tables["table"]["strips"] == "fresh"]
    lengths = sorted(table["k"].unique())
    wide = {"width": 7.0 if len(lengths) > 1 else 5.0}
    figure, axes = panels(2, len(lengths), height=1.8, height_ratios=(4, 1), **wide)
    for (above, below), k in zip(axes.T, lengths, strict=True):
        _curves(above, table[table["k"] == k])
        _strips(below, DigitParity(k=int(k), images=str(table["images"].iloc[0])))
    axes[0, 0].set_ylabel("accuracy")
    trials = table.groupby(["k", "model"])["seed"].nunique().max()
    name = str(table["images"].iloc[0])
    task = f"Parity of sums of digits ({'MNIST' if name == 'mnist' else Path(name).stem}, fresh strips)"
    setting = f"{task}; lines: medians of {trials} trials, bands: their range on held-out strips; dotted grey: guessing"
    title_panels(axes[0], [_finding(int(k), table[table["k"] == k]) for k in lengths], setting)
    style: dict[str, Any] = {"color": GREY, "linewidth": 1}
    handles = [
        *axes[0, 0].get_legend_handles_labels()[0],
        Line2D([], [], label="held-out strips", **style),
        Line2D([], [], linestyle=":", label="training strips", **style),
    ]
    figure.legend(handles=handles, fontsize=SMALL, frameon=False, ncols=3, loc="outside lower center")
    return figure


def _finding(k: int, rows: pd.DataFrame) -> str:
    """Return in words which models of one k are right on more than 55% of the held-out strips in the end."""
    last = rows.groupby(["model", "seed"])["test_accuracy"].last().groupby("model").median()
    task = "One digit" if k == 1 else f"Sum of {k} digits"
    if (last > 0.55).all():
        return f"{task}: all models learn"
    return f"{task}: only the network learns" if list(last[last > 0.55].index) == ["network"] else task


def _curves(ax: Axes, part: pd.DataFrame) -> None:
    trained = part[part["epoch"] > 0]
    bands(ax, trained, "epoch", "test_accuracy", "model", quantiles=(0, 0.5, 1), linewidth=1.2)
    bands(ax, trained, "epoch", "train_accuracy", "model", quantiles=(0.5,) * 3, label="", linewidth=0.9, linestyle=":")
    ax.axhline(0.5, color=GREY, linewidth=0.6, linestyle=":")
    ax.set(ylim=(0.45, 1.02), xlim=(0, None), xlabel="epochs")
    percent(ax)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))


def _strips(ax: Axes, task: DigitParity) -> None:
    """Show the first even and the first odd of a task's held-out strips side by side."""
    x, y = task.examples(task.held_out(None), random.stream(0, "test"), np.arange(LOOKED_AT, dtype=np.uint32))
    one_each = [int(np.argmax(y > 0)), int(np.argmax(y <= 0))]
    shown = [strip(x[index], task.data.shape) for index in one_each]
    height, width = shown[0].shape
    gap = height // 2
    for index, (digits, label) in enumerate(zip(shown, y[one_each], strict=True)):
        left = index * (width + gap)
        ax.imshow(1 - digits, cmap="gray", extent=(left, left + width, height, 0), vmin=0, vmax=1)
        word = "even" if label > 0 else "odd"
        ax.text(left + width / 2, 1.15 * height, word, fontsize=SMALL, color=GREY, ha="center", va="top")
    ax.set_xlim(0, len(shown) * (width + gap) - gap)
    ax.set_ylim(1.6 * height, 0)
    ax.set_axis_off()


def findings(tables: Tables) -> dict[str, Any]:
    """Return, by k and model, medians over trials of the accuracies at the last epoch, and the best held-out one."""
    stated: dict[str, Any] = {}
    for (k, strips, model), rows in tables["table"].groupby(["k", "strips", "model"], sort=False):
        trials = rows.groupby("seed")
        last = trials.last().assign(best_test_accuracy=trials["test_accuracy"].max())
        names = ["test_accuracy", "best_test_accuracy", "train_accuracy"]
        medians = {str(name): round(float(value), 4) for name, value in last[names].median().items()}
        row = {"trials": len(last), **medians, "seconds": round(float(last["seconds"].sum()), 1)}
        stated.setdefault(f"k = {k}" + (", fixed strips" if strips == "fixed" else ""), {})[str(model)] = row
    return stated


EXPERIMENT = Experiment(
    name="digit-parity",
    shows="A network learns the parity of three digits; predictors linear in fixed features hardly do",
    source="figure 1",
    scales={
        "smoke": Scale(lambda trials: models("digits", 2000, 3, trials), trials=1),
        "laptop": Scale(lambda trials: models("digits", 20_000, 20, trials), trials=3),
        "paper": Scale(paper, trials=5),
    },
    analyse=analyse,
    plot=plot,
    findings=findings,
    probes=probes,
    claims=CLAIMS,
)
