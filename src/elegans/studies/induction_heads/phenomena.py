"""An induction head that forms, in a minute."""

import numpy as np

from elegans.phenomena import Chart, Matrix, Moment, Phenomenon, Story
from elegans.phenomena.base import Train, first_below
from elegans.studies.induction_heads.probes import AttentionMaps, ChainLosses
from elegans.studies.induction_heads.settings import transformer

K, LENGTH, BATCH, STEPS, EVERY, SHOWN = 3, 60, 64, 1500, 25, 20

"""Symbols, tokens of a sequence, sequences of a minibatch, steps, steps between measurements, tokens in the maps."""


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
    moments = [Moment(0, "Each token attends about equally to itself and all earlier tokens: the network guesses.")]
    if plateau is not None:
        moments.append(
            Moment(plateau, "It predicts by the frequency of symbols, and stays on this plateau for a while.")
        )
    if drop is not None:
        text = "The head forms: the first layer looks one token back, and the second at what followed the same symbol."
        moments.append(Moment(drop, text))
    found = (
        f"The loss was half-way from counting symbols to counting pairs at step {drop:,}. At the end the first "
        f"layer puts "
        f"{previous[-1]:.0%} of its attention on the previous token, and the second {head[-1]:.0%} on tokens "
        f"that followed the same symbol."
        if drop is not None
        else f"The loss did not fall below the middle between unigrams and bigrams in {STEPS:,} steps."
    )
    axes = (f"token, the first {SHOWN} of {LENGTH}", "token that it attends to")
    return Story(
        steps,
        [
            Chart("Excess loss over the true chain", {"network": (steps, loss)}, theory=lines, scale="linear"),
            Chart(
                "Both layers change at the same time",
                {
                    "first layer: weight on the token before": (steps, previous),
                    "second layer: weight on tokens that followed the same symbol": (steps, head),
                },
            ),
        ],
        [
            Matrix("First layer: what each token attends to", first, *axes, values="attention:"),
            Matrix("Second layer: what each token attends to", second, *axes, values="attention:"),
        ],
        moments,
        found,
    )


INDUCTION = Phenomenon(
    name="induction-head",
    shows="A transformer first counts symbols, then suddenly learns to count what followed each symbol",
    source="Edelman, Edelman, Goel, Malach and Tsilivis (2024): the evolution of statistical induction heads.",
    setting="A two-layer transformer with one head per layer reads sequences of 60 tokens and predicts the next "
    "token. Each sequence comes from its own Markov chain on 3 symbols.",
    watch="The loss plateaus at the unigram line, the best that counting symbols can do, then drops towards the "
    "bigram line. In the maps a diagonal appears in the first layer, and stripes in the second.",
    theory="The dashed lines can be computed without training: they are the losses of guessing, of counting "
    "symbols, and of counting "
    "pairs of symbols in the sequence so far, which is nearly the best that can be done.",
    further=("elegans run induction-phases --scale laptop", "elegans claims induction-phases", "elegans theory bigram"),
    train=_induction,
)
