"""An induction head that forms, in a minute."""

import numpy as np

from elegans.phenomena import Chart, Matrix, Moment, Phenomenon, Story
from elegans.phenomena.base import Train, first_below
from elegans.studies.induction_heads.probes import AttentionMaps, ChainLosses
from elegans.studies.induction_heads.settings import transformer

K, LENGTH, BATCH, STEPS, EVERY, SHOWN = 3, 60, 64, 1500, 25, 20

"""Symbols, tokens of a sequence, sequences of a minibatch, steps, steps between measurements, tokens in the maps."""
WHERE = ("on the token before", "on tokens that followed the same symbol")


def _induction(train: Train, seed: int) -> Story:
    trial = transformer(K, LENGTH, batch_size=BATCH, steps=STEPS).replace("seed", seed)
    outcome = train(trial, ChainLosses(every=EVERY), AttentionMaps(every=EVERY, length=SHOWN), errors=False)
    losses, maps = outcome.measures["chain-losses"], outcome.measures["attention-maps"]
    steps = [int(step) for step in losses["step"]]
    loss = np.asarray(losses["loss"], float)
    lines = {name: float(losses[f"line.{name}"][-1]) for name in ("uniform", "unigram", "bigram")}
    plateau = first_below(steps, loss, 1.1 * lines["unigram"])
    drop = first_below(steps, loss, (lines["unigram"] + lines["bigram"]) / 2)
    tokens = np.asarray(maps["tokens"])[-1]
    first, second = (np.asarray(maps[f"layer{layer}"], float)[:, 0] for layer in (1, 2))
    place = np.arange(1, SHOWN)
    previous = first[:, place, place - 1].mean(axis=1)
    follows = np.array(
        [[key > 0 and key <= q and tokens[key - 1] == tokens[q] for key in range(SHOWN)] for q in range(SHOWN)]
    )
    head = (second * follows).sum(axis=2)[:, follows.any(axis=1)].mean(axis=1)
    moments = [Moment(0, "Every token attends to all earlier ones alike: the network guesses.")]
    if plateau is not None:
        moments.append(Moment(plateau, "It counts which symbols are frequent, and stays there for a while."))
    if drop is not None:
        text = (
            "The head forms: the first layer looks one token back, the second at what followed the same symbol before."
        )
        moments.append(Moment(drop, text))
    ends = {"the first layer puts": previous[-1], "the second": head[-1]}
    told = " and ".join(f"{name} {value:.0%} {where}" for (name, value), where in zip(ends.items(), WHERE, strict=True))
    return Story(
        steps,
        [
            Chart("Loss above that of the true chain", {"network": (steps, loss)}, theory=lines, scale="linear"),
            Chart(
                "Both layers turn at the same time",
                {
                    "first layer: weight on the token before": (steps, previous),
                    "second layer: weight on tokens that followed the same symbol": (steps, head),
                },
            ),
        ],
        [
            Matrix("First layer: what each token attends to", first, "token", "earlier token"),
            Matrix("Second layer", second, "token", "earlier token"),
        ],
        moments,
        f"The loss passed half-way from unigrams to bigrams at step {drop}. Of its attention, in the end {told}.",
    )


INDUCTION = Phenomenon(
    name="induction-head",
    shows="A transformer first counts symbols, then suddenly learns to look up what followed last time",
    source="Edelman, Edelman, Goel, Malach and Tsilivis (2024): the evolution of statistical induction heads.",
    setting="A transformer of two layers with one head each reads sequences of 60 tokens, each from a Markov "
    "chain of its own on 3 symbols, and predicts the next token.",
    watch="The loss stays for a while at the line of unigrams, the best that counting symbols can do, then drops to "
    "that of bigrams. In the maps a diagonal appears in the first layer, and stripes in the second.",
    theory="The dashed lines need no training: they are the losses of guessing, of counting symbols, and of counting "
    "pairs of symbols in the sequence so far, which is nearly the best that can be done.",
    further=("elegans run induction-phases --scale laptop", "elegans claims induction-phases", "elegans theory bigram"),
    train=_induction,
)
