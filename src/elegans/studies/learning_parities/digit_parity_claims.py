"""Claims on strips of digits, decided from the table of ``digit-parity``."""

from dataclasses import replace
from itertools import product

import pandas as pd

from elegans.experiments import InsufficientData, Tables, Verdict, claim
from elegans.experiments.claims import FAILS, HOLDS, IN_PART, UNDECIDED
from elegans.experiments.rules import LEVEL, combine, decided, table
from elegans.studies.learning_parities.rules import by_mean, mean_and_interval

NEEDS = "strips of MNIST, 20 epochs, 5 seeds per model: elegans run digit-parity --scale paper"
NETWORK = "network"
FOURIER = "random Fourier features (RBF)"
LINEAR = ("frozen gates (NTK)", "random ReLU features", FOURIER)
EPOCHS, SEEDS = 20, 5
STRIPS = ("fresh", "fixed")
SETTING = (
    "strips of MNIST digits, 512 ReLU units or features, AdaDelta, 20 epochs, batch size 128; not stated: loss (here "
    "logistic), AdaDelta's constants, number of strips (here 60 000 per epoch), fresh or fixed strips (both for three "
    "digits, fresh ones for one), split, scaling, initial weights, bandwidth (here the median distance), which weights "
    "of the gated network learn, number of runs"
)


def accuracies(tables: Tables, k: int, strips: str = "fresh") -> pd.DataFrame:
    """Return the test accuracies after the last epoch, one row per seed and one column per model."""
    rows = table(tables, "table", NEEDS, images="mnist", k=k, strips=strips)
    ends = rows[rows["epoch"].round() == EPOCHS].pivot(index="seed", columns="model", values="test_accuracy")
    if not {NETWORK, *LINEAR} <= set(ends) or len(ends.dropna()) < SEEDS:
        raise InsufficientData(NEEDS)
    return ends.dropna()


@claim(
    id="parities/digit-three-gap",
    statement="On strips of three digits the ReLU network is far ahead of every linear model: the gap is dramatic.",
    source="section 6, figure 1 (top right)",
    setting=SETTING,
    rule="Test accuracy after epoch 20, network minus the best linear model, paired by seed, 5 seeds. Holds if the t "
    "interval of the mean gap (2% over the two) lies above 15 points with fresh and with fixed strips; in part if it "
    "lies above 5 points, or for one of the two only (our thresholds).",
    revised="The error rate was 5% for each part; now both parts share an error rate of 2%. The verdict is the same.",
)
def dramatic_gap(tables: Tables) -> Verdict:
    parts = {}
    for strips in STRIPS:
        ends = accuracies(tables, 3, strips)
        gap = ends[NETWORK] - ends[list(LINEAR)].max(axis=1)
        verdict = by_mean(f"gap of the network, {strips} strips,", gap, NEEDS, level=LEVEL / len(STRIPS), above=0.15)
        if verdict.verdict == FAILS and verdict.numbers["interval"][1] >= 0.05:
            verdict = verdict.but(IN_PART, needs="holds with a gap of 5 to 15 points")
        parts[f"{strips} strips"] = verdict
    return combine(parts, LEVEL)


@claim(
    id="parities/digit-three-network",
    statement="The network reaches almost 80% test accuracy on strips of three digits.",
    source="section 6",
    setting=SETTING + "; not stated: last or best epoch",
    rule="Test accuracy after epoch 20, 5 seeds. Holds if the t interval (2% over the two) lies within 75% to 80% "
    "(the lower end is our choice) with fresh and with fixed strips; in part for one of the two. Fixed strips number "
    "60 000 (our choice); more would be closer to fresh ones. The best epoch in place of the last would give the same "
    "verdicts.",
    revised="The error rate was 5% for each part; now both parts share an error rate of 2%. The verdict is the same.",
)
def almost_eighty(tables: Tables) -> Verdict:
    parts = {}
    for strips in STRIPS:
        reached = accuracies(tables, 3, strips)[NETWORK]
        what, level = f"accuracy, {strips} strips,", LEVEL / len(STRIPS)
        parts[f"{strips} strips"] = by_mean(what, reached, NEEDS, level=level, above=0.75, below=0.80)
    return combine(parts, LEVEL)


@claim(
    id="parities/digit-three-linear",
    statement="The linear models barely beat chance on three digits.",
    source="section 6, figure 1 (top right)",
    setting=SETTING,
    rule="Test accuracy after epoch 20 with fresh and with fixed strips, 5 seeds. A model barely beats chance if its t "
    "interval (2% over three models and both kinds of strips) is at most 55%, and clearly beats it if the interval "
    "lies above 60% (our thresholds). Holds for all models with both, in part for some.",
    revised="Only fresh strips were judged, with 2% over three intervals; fixed strips had been trained too. The rule "
    "was changed after the tables had been seen. The verdict is the same.",
)
def barely_above_chance(tables: Tables) -> Verdict:
    level, parts = LEVEL / len(LINEAR) / len(STRIPS), {}
    for model, strips in product(LINEAR, STRIPS):
        mean, (low, high) = mean_and_interval(accuracies(tables, 3, strips)[model], NEEDS, level=level)
        because = f"accuracy of {model} is {mean:.3f} ({low:.3f} to {high:.3f})"
        numbers = {"accuracy": mean, "interval": [low, high], "above chance": low > 0.5}
        parts[f"{model}, {strips} strips"] = decided(high <= 0.55, low > 0.60, because, numbers, level, "more seeds")
    return combine(parts, LEVEL)


@claim(
    id="parities/digit-one-similar",
    statement="On single digits all models, linear or not, perform alike, with the network slightly ahead.",
    source="section 6, figure 1 (top left)",
    setting=SETTING,
    rule="Test accuracy after epoch 20, fresh strips, 5 paired seeds, t intervals of the mean gap between the network "
    "and each model (2% over the three). A model performs alike if its gap is at most 3 points (our choice); the "
    "network is ahead if all gaps exceed 0. Fails if the network is behind a model. Fourier features have one "
    "bandwidth (our choice): a larger gap leaves them undecided. With 7 points random ReLU features would be alike "
    "too, with 9 all models.",
    revised="The network counted as ahead if it beat every model with every seed, which happens by chance once in 32; "
    "now the intervals of the gaps decide. Fourier features, which have one bandwidth, counted as a failure; they are "
    "now undecided. This was changed after the tables had been seen. The verdict is the same.",
)
def similar(tables: Tables) -> Verdict:
    ends, level = accuracies(tables, 1), LEVEL / len(LINEAR)
    gaps = {model: ends[NETWORK] - ends[model] for model in LINEAR}
    parts = {model: by_mean(f"gap to {model}", gap, NEEDS, level=level, below=0.03) for model, gap in gaps.items()}
    if parts[FOURIER].verdict == FAILS:
        parts[FOURIER] = parts[FOURIER].but(UNDECIDED, needs="other bandwidths of the Fourier features")
    close = combine(parts, LEVEL)
    ahead = {model: part.numbers["interval"][0] > 0 for model, part in parts.items()}
    behind = [model for model, part in parts.items() if part.numbers["interval"][1] < 0]
    because = f"the network is ahead of {sum(ahead.values())} of 3 models; {close.because}"
    stated = replace(close, because=because, numbers={"ahead": ahead, **close.numbers})
    if behind or all(ahead.values()) or close.verdict in (FAILS, UNDECIDED):
        return stated.but(FAILS) if behind else stated
    return stated.but(UNDECIDED, needs="more seeds")


@claim(
    id="parities/digit-three-harder",
    statement="Going from one digit to three makes the task much harder, for all models.",
    source="section 6",
    setting=SETTING + "; not stated: k = 2 and k > 3",
    rule="Accuracy at k = 1 minus accuracy at k = 3 after epoch 20, fresh strips, 5 seeds: holds if every model's t "
    "interval (2% over the four) is above 10 points, fails if the network's is below 5 (our thresholds).",
)
def harder(tables: Tables) -> Verdict:
    single, three = accuracies(tables, 1), accuracies(tables, 3)
    parts = {}
    for model in (NETWORK, *LINEAR):
        fall = (single[model] - three[model].reindex(single.index)).dropna()
        parts[model] = by_mean(f"fall of {model}", fall, NEEDS, level=LEVEL / 4, above=0.10)
    because = "; ".join(part.because for part in parts.values())
    numbers = {model: part.numbers for model, part in parts.items()}
    verdicts = [part.verdict for part in parts.values()]
    held = [model for model, part in parts.items() if part.verdict == HOLDS]
    small = parts[NETWORK].numbers["interval"][1] < 0.05
    partly = "" if small or UNDECIDED in verdicts else f"holds for {', '.join(held) or 'a smaller fall'}"
    return decided(verdicts == [HOLDS] * 4, small, because, numbers, LEVEL, "more seeds", part=partly)


CLAIMS = (dramatic_gap, almost_eighty, barely_above_chance, similar, harder)
