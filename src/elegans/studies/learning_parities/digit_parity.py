"""The parity of a strip of digits: figure 1 of "Learning Parities with Neural Networks".

The label of a strip of k digits is the parity of their sum. With k = 1 the task is a kind of recognition; with k = 3 no
single digit says anything. A network with 512 ReLU neurons is compared with three predictors that are linear in what
they learn: the same network with its gates frozen, random ReLU features, and random Fourier features.

Choices: logistic loss; AdaDelta with its usual rho = 0.95, epsilon = 1e-6 and rate 1; strips drawn anew all the time,
60000 of them an epoch (a network fits as many fixed ones, and is then worse elsewhere); held-out strips of held-out
images; pixels from 0 to 1; initial weights by fan-in; of the frozen-gate network the inner weights and the output's
bias learn (with the outer ones as well it would be no linear predictor, though of the same class); a bandwidth of the
median distance.
"""

from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from elegans.experiments.base import Experiment, Scale
from elegans.models import MLP, GatedLinear, Model, RandomFourier, RandomReLU
from elegans.plots import figure_of
from elegans.probes import Probe, TestError, TrainError
from elegans.stopping import StoppingRule
from elegans.studies.learning_parities.plot_digits import digit_curves
from elegans.sweeps import Sweep, grid
from elegans.tasks import DigitParity, Online
from elegans.tasks.images import load_images
from elegans.training import AdaDelta, LayerRates, Trial

WIDTH = 512
BATCH = 128
MODELS: dict[str, Model] = {
    "network": MLP(width=WIDTH),
    "frozen gates (NTK)": GatedLinear(width=WIDTH),
    "random ReLU features": RandomReLU(width=WIDTH),
    "random Fourier features (RBF)": RandomFourier(width=WIDTH),
}
"""What is compared, in words."""
FIXED = {"output.weight": LayerRates(learning_rate=0.0)}
"""What keeps the frozen-gate network linear in what it learns."""


def trial(k: int, model: Model, images: str, strips: int, epochs: int) -> Trial:
    """Return the training of one model on strips of k digits; it is looked at once an epoch.

    Args:
        k: how many digits a strip has.
        model: what learns.
        images: which digits, as ``DigitParity`` takes them.
        strips: how many an epoch has, none of them seen before.
        epochs: how many there are.
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
    parts = [
        grid(trial(k, model, images, strips, epochs), {}, seeds=trials) for k in (3, 1) for model in MODELS.values()
    ]
    return sum(parts[1:], start=parts[0])


def smoke(trials: int) -> Sweep:
    """Return a few epochs on the bundled digits."""
    return models("digits", 2000, 3, trials)


def laptop(trials: int) -> Sweep:
    """Return 20 epochs on strips of the bundled digits, of 8 x 8 pixels."""
    return models("digits", 20_000, 20, trials)


def paper(trials: int) -> Sweep:
    """Return 20 epochs on strips of MNIST; refused at once where MNIST cannot be had."""
    load_images("mnist")
    return models("mnist", 60_000, 20, trials)


def probes(one: Trial) -> tuple[Probe, ...]:
    """Return the two errors, measured once an epoch."""
    assert one.training is not None
    every = one.training.stopping.every
    return TrainError(every=every), TestError(every=every)


def analysis(trials: pd.DataFrame) -> pd.DataFrame:
    """Return a row a trial and epoch: accuracies on the first strips trained on and on held-out ones."""
    return pd.concat([_course(outcome) for outcome in trials["outcome"]], ignore_index=True)


def _course(outcome: Any) -> pd.DataFrame:
    one = outcome.trial
    train, test = outcome.measures["train-error"], outcome.measures["test-error"]
    return pd.DataFrame(
        {
            "images": one.task.images,
            "k": one.task.k,
            "model": next(name for name, model in MODELS.items() if model == one.model),
            "seed": one.seed,
            "epoch": [round(step / one.training.stopping.every, 2) for step in test["step"]],
            "train_accuracy": [1 - error for error in train["error"]],
            "test_accuracy": [1 - error for error in test["error"]],
            "seconds": outcome.seconds,
        }
    )


def plot(table: pd.DataFrame) -> Figure:
    """Draw the accuracies against epochs, a panel for each k, and strips below."""
    return figure_of(digit_curves(table))


def findings(table: pd.DataFrame) -> dict[str, Any]:
    """Return, by k and model, medians over trials of the accuracies at the last epoch, and the best held-out one."""
    found: dict[str, Any] = {}
    for (k, model), rows in table.groupby(["k", "model"], sort=False):
        trials = rows.groupby("seed")
        last = trials.last()
        found.setdefault(f"k = {k}", {})[str(model)] = {
            "trials": len(last),
            "test_accuracy": _rounded(last["test_accuracy"]),
            "best_test_accuracy": _rounded(trials["test_accuracy"].max()),
            "train_accuracy": _rounded(last["train_accuracy"]),
            "seconds": round(float(last["seconds"].sum()), 1),
        }
    return found


def _rounded(values: pd.Series) -> float:
    return round(float(values.median()), 4)


EXPERIMENT = Experiment(
    name="digit-parity",
    shows="The parity of three digits is learned by a network, and hardly by predictors linear in fixed features",
    source="figure 1",
    scales={
        "smoke": Scale(smoke, trials=1, time="about 30 seconds"),
        "laptop": Scale(laptop, trials=3, time="about 4 minutes of processor time"),
        "paper": Scale(paper, trials=1, time="about 17 minutes of processor time; needs MNIST"),
    },
    analysis=analysis,
    plot=plot,
    findings=findings,
    probes=probes,
    outcomes=True,
)
