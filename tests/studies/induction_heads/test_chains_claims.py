"""Rules that decide this study's claims, on tables made by hand: every verdict that they can give."""

import numpy as np
import pandas as pd
import pytest

from elegans import theory
from elegans.experiments import EXPERIMENTS
from elegans.experiments.checks import check
from elegans.experiments.claims import CORRECTED, FAILS, HOLDS, IN_PART, UNDECIDED, judge
from elegans.studies.induction_heads import (
    induction_phases_claims,
    induction_strategies,
    out_of_distribution,
    rules,
    three_grams,
    unigrams_delay,
)
from elegans.studies.induction_heads.heads import head_measures
from elegans.studies.induction_heads.predictors import last_logits
from elegans.studies.induction_heads.settings import transformer

CLAIMS = {one.id: one for entry in EXPERIMENTS.values() for one in entry.claims if one.id.startswith("induction/")}


def verdict(claim, tables):
    """What the rule of a claim says of tables."""
    return judge([CLAIMS[claim]], tables)[claim]["verdict"]


@pytest.mark.parametrize(
    ("shown", "runs", "expected"),
    [(11, 13, HOLDS), (10, 13, UNDECIDED), (2, 13, FAILS), (16, 20, HOLDS), (15, 20, UNDECIDED), (4, 20, FAILS)],
)
def test_a_typical_run_shows_it(shown, runs, expected):
    found = rules.most("a thing", [True] * shown + [False] * (runs - shown), runs=runs)
    assert found.verdict == expected
    assert found.error_rate == pytest.approx({13: 0.0112, 20: 0.0059}[runs], abs=5e-5)


@pytest.mark.parametrize(
    ("ratios", "expected"),
    [
        ([2.0] * 13, HOLDS),
        ([2.0] * 10 + [np.inf] * 3, HOLDS),
        ([2.0] * 11 + [1.2] * 2, HOLDS),
        ([2.0] * 10 + [1.2] * 3, IN_PART),
        ([1.2] * 13, IN_PART),
        ([2.0] * 10 + [0.5] * 3, UNDECIDED),
        ([2.0] * 9 + [np.nan] * 4, UNDECIDED),
        ([np.nan] * 13, UNDECIDED),
        ([2.0] * 8 + [0.5] * 5, UNDECIDED),
        ([2.0] * 2 + [0.5] * 11, FAILS),
    ],
)
def test_ratios_of_pairs(ratios, expected):
    assert rules.by_ratios("a ratio", ratios, above=1.5).verdict == expected


@pytest.mark.parametrize(
    ("loss", "falling", "expected"),
    [(0.1, 0, HOLDS), (0.3, 0, IN_PART), (0.6, 0, FAILS), (0.6, 0.1, UNDECIDED), (0.1, 0.1, HOLDS)],
)
def test_a_loss_near_the_best(loss, falling, expected):
    """The gap lies between 1 and 0.08."""
    ends = pd.DataFrame({"loss": [loss] * 13, "simpler": 1.0, "best": 0.08, "falling": falling})
    assert rules.near_best("a network", ends).verdict == expected


def at_unigrams(cell, share):
    """Thirteen runs that move at step 100, at unigrams during a share of the steps before."""
    steps = np.arange(0, 120, 10)
    there = (steps < 100 * share).tolist()
    rows = {"step": steps, "loss": np.where(there, 1.0, 2.0), "phase": np.where(there, "unigram", "uniform")}
    constant = {"line.unigram": 1.0, "prior": out_of_distribution.OWN, "cell": cell, "transition": 100.0}
    return pd.concat([pd.DataFrame(rows).assign(seed=seed, **constant) for seed in range(13)])


@pytest.mark.parametrize(
    ("transformer", "minimal", "expected"),
    [(0.6, 0.2, HOLDS), (0.6, 0.0, HOLDS), (0.6, 0.4, IN_PART), (0.4, 0.4, FAILS), (0.0, 0.0, UNDECIDED)],
)
def test_less_time_at_unigrams_is_nothing_if_neither_model_spends_any(transformer, minimal, expected):
    shares = {"transformer": transformer, "minimal model": minimal}
    runs = [at_unigrams(f"{model}, k = {k}", share) for model, share in shares.items() for k in (2, 3)]
    assert verdict("induction/minimal-little-time-at-unigrams", {"curves": pd.concat(runs)}) == expected


def test_too_few_runs_leave_a_claim_undecided():
    for call in (
        lambda: rules.most("a thing", [True] * 12),
        lambda: rules.by_ratios("a ratio", [2.0] * 12),
    ):
        with pytest.raises(rules.InsufficientData):
            call()


EXACT = [
    *(claim.id for claim in EXPERIMENTS["induction-theory"].claims),
    *(claim.id for claim in EXPERIMENTS["induction-strategies"].claims if "linear-logits" not in claim.id),
]


@pytest.mark.parametrize("claim", EXACT)
def test_checks_decide_statements_of_theory(claim):
    def of(*deviations, agreed=0.0):
        rows = [check(claim, str(number), one, 1.0) for number, one in enumerate(deviations)]
        return {"checks": pd.DataFrame([check(rules.COMPUTATIONS, "twice", agreed, 1e-6), *rows])}

    assert verdict(claim, of(0.5, 0.9)) == HOLDS
    assert verdict(claim, of(0.5, 1.1)) == IN_PART
    assert verdict(claim, of(2.0, np.nan)) == FAILS
    assert verdict(claim, {}) == UNDECIDED


def test_statements_of_the_first_steps_are_undecided_where_computations_disagree():
    rows = [check(rules.COMPUTATIONS, "twice", 1.0, 1e-6), check("induction/two-step-curriculum", "one", 0.0, 1.0)]
    assert verdict("induction/two-step-curriculum", {"checks": pd.DataFrame(rows)}) == UNDECIDED


@pytest.mark.parametrize(
    ("far", "expected"),
    [
        ({}, HOLDS),
        ({(2, 200): {"gap": 0.8}}, HOLDS),  # no size of the source's figures
        ({(2, 100): {"gap": 0.8}}, IN_PART),
        ({(2, 100): {"loss": 0.25}}, IN_PART),
        ({size: {"gap": 0.0} for size in induction_strategies.FIGURES}, FAILS),
    ],
)
def test_linear_logits_are_judged_at_the_sizes_of_the_source_s_figures(far, expected):
    def table(sizes):
        rows = [{"k": k, "length": length, "gap": 0.9, "loss": 0.15, "bigram": 0.1} for k, length in sizes]
        return {"logits": pd.DataFrame([row | far.get((row["k"], row["length"]), {}) for row in rows])}

    claim, sizes = "induction/linear-logits-close-to-bayes", [*induction_strategies.FIGURES, (2, 200)]
    assert verdict(claim, table(sizes)) == expected
    assert verdict(claim, table(sizes[1:])) == UNDECIDED


def test_logits_at_the_last_position_are_the_minimal_model_s():
    generator = np.random.default_rng(0)
    tokens = generator.integers(3, size=(5, 9))
    weights = theory.MinimalWeights(generator.normal(size=(3, 3)), generator.normal(size=9))
    assert last_logits(weights, tokens) == pytest.approx(theory.minimal_logits(weights, tokens)[:, -1])


STEPS = np.arange(0, 4001, 40)
MOVED = 2000


def many(make, count=13, **columns):
    """Runs of so many seeds; ``make`` is given the seed."""
    return pd.concat([make(seed).assign(seed=seed, trial=seed, **columns) for seed in range(count)], ignore_index=True)


def staged(seed=0, *, end=0.01, moved=MOVED, plateau=0.09, last="bigram"):
    """A run with a plateau at unigrams (line 0.09) until its transition, then bigrams (line 0.008)."""
    moved += 40 * (7 * seed % 30) if moved else 0
    early, late = STEPS < 200, (moved or 10**9) <= STEPS
    loss = np.where(early, 0.2, np.where(late, end, plateau))
    phase = np.where(early, "uniform", np.where(late, last, "unigram"))
    columns = {"step": STEPS, "loss": loss, "phase": phase, "transition": float(moved) if moved else np.nan}
    far = {"uniform": early, "unigram": ~early & ~late, "bigram": late}
    near = {"uniform": 0.2, "unigram": 0.02, "bigram": 0.02}
    before = {"uniform": 0.9, "unigram": 0.5, "bigram": 0.6}
    for name, at in far.items():
        distance = np.where(at, near[name], np.where(early, before[name], 0.2))
        columns |= {f"distance.{name}": distance, f"reverse.{name}": distance}
    return pd.DataFrame(columns | {"line.uniform": 0.21, "line.unigram": 0.09, "line.bigram": 0.008})


def cells(*runs):
    """The table of curves with both numbers of symbols."""
    return {"curves": pd.concat([run.assign(cell=f"k = {k}", k=k) for run in runs for k in (2, 3)], ignore_index=True)}


def still(seed):
    """A run that never leaves unigrams."""
    return staged(seed, moved=0)


PHASES = [
    ("induction/phases-uniform-unigram-bigram", 30, staged, HOLDS),
    ("induction/phases-uniform-unigram-bigram", 30, still, FAILS),
    ("induction/phases-uniform-unigram-bigram", 29, staged, UNDECIDED),
    ("induction/staged-loss-curve", 30, staged, HOLDS),
    ("induction/staged-loss-curve", 30, lambda seed: staged(seed, plateau=0.15), IN_PART),
    ("induction/staged-loss-curve", 30, still, FAILS),
    ("induction/final-loss-near-bayes", 30, staged, HOLDS),
    ("induction/final-loss-near-bayes", 30, lambda seed: staged(seed, end=0.04), IN_PART),
    ("induction/final-loss-near-bayes", 30, still, FAILS),
    ("induction/distances-cross-at-second-drop", 30, staged, HOLDS),
    ("induction/distances-cross-at-second-drop", 30, still, FAILS),
    ("induction/seeds-same-shape-other-times", 30, staged, HOLDS),
    ("induction/seeds-same-shape-other-times", 30, lambda seed: staged(7), FAILS),
    ("induction/seeds-same-shape-other-times", 20, staged, UNDECIDED),
    ("induction/seeds-same-shape-other-times", 30, lambda seed: staged(seed) if seed < 24 else still(seed), HOLDS),
    ("induction/seeds-same-shape-other-times", 30, lambda seed: staged(seed) if seed < 20 else still(seed), UNDECIDED),
]


@pytest.mark.parametrize(("claim", "count", "make", "expected"), PHASES)
def test_claims_of_phases(claim, count, make, expected):
    assert verdict(claim, cells(many(make, count))) == expected


@pytest.mark.parametrize(("bigram", "expected"), [(0.57, HOLDS), (0.8, IN_PART)])
def test_a_network_that_equals_unigrams_has_come_near_enough_to_bigrams(bigram, expected):
    """At k = 3 the distance of unigrams to bigrams is 0.57 of the distance of uniform guesses to them."""

    def make(seed):
        run = staged(seed)
        early, plateau = run["phase"] == "uniform", run["phase"] == "unigram"
        distance = np.where(early, 1.0, np.where(plateau, bigram, 0.02))
        return run.assign(**{"distance.bigram": distance, "reverse.bigram": distance})

    assert verdict("induction/distances-cross-at-second-drop", cells(many(make, 30))) == expected


def profiled(seed=0, *, odd=True, begins=0.7, difference=0.02, correlation=0.0):
    """A run whose first layer favours odd distances from a share of the time to the transition on."""
    run = staged(seed)
    bias = np.where(run["step"] >= begins * run["transition"], 0.1, 0.0)
    return run.assign(odd=odd, parity_bias=bias, difference=difference, correlation=correlation)


@pytest.mark.parametrize(
    ("claim", "changes", "expected"),
    [
        ("induction/odd-look-backs-before-the-drop", {}, HOLDS),
        ("induction/odd-look-backs-before-the-drop", {"begins": 0.2}, IN_PART),
        ("induction/odd-look-backs-before-the-drop", {"begins": 0.2, "odd": False}, FAILS),
        ("induction/encoding-alike-across-symbols", {}, HOLDS),
        ("induction/encoding-alike-across-symbols", {"difference": 0.2, "correlation": 1.0}, FAILS),
    ],
)
def test_claims_of_positional_profiles(claim, changes, expected):
    assert verdict(claim, cells(many(lambda seed: profiled(seed, **changes), 20))) == expected
    assert verdict(claim, cells(many(profiled, 12))) == UNDECIDED


def test_runs_without_a_transition_and_checks_before_it_do_not_count_as_alike():
    runs = many(profiled, 20)
    never = {"transition": np.nan}
    apart = {"difference": np.where(runs["step"] > runs["transition"], 0.2, 0.0)}
    for few, expected in ((3, HOLDS), (10, UNDECIDED), (20, FAILS)):
        for changes in (never, apart):
            mixed = runs.where(runs["seed"] >= few, runs.assign(**changes))
            assert verdict("induction/encoding-alike-across-symbols", cells(mixed)) == expected


def minimal(seed=0, *, late=0.06, off=0.01, second=1000, v_4=0.5, own=0.02):
    """A run of the minimal model; the loss ends at ``late``, with the best factor at ``own`` (counts: 0.019)."""
    run = staged(seed, end=late, last="bigram")
    places = {f"v_{place}": value for place, value in enumerate((0.1, 1, 0.1, v_4, 0.1, 0.3, 0.1, 0.2, 0.1, 0.1), 1)}
    steps = run["step"]
    parts = {"early_pair": np.where(steps >= 40, 0.02, 0.2), "early_position": np.where(steps >= second, 0.02, 0.2)}
    return run.assign(own=own, limit=0.019, diagonal_least=0.1, off_largest=off, **places, **parts)


def of_minimal(make, count=13):
    runs = many(make, count)
    names = [f"k = {k}{start}" for k in (2, 3) for start in ("", ", constant start")]
    return {"curves": pd.concat([runs.assign(cell=name) for name in names], ignore_index=True)}


@pytest.mark.parametrize(
    ("claim", "changes", "expected"),
    [
        ("induction/minimal-reaches-bigrams", {"late": 0.015}, HOLDS),
        ("induction/minimal-reaches-bigrams", {}, IN_PART),
        ("induction/minimal-reaches-bigrams", {"own": 0.3}, IN_PART),
        ("induction/minimal-parameters-as-in-figure", {"late": 0.03}, HOLDS),
        ("induction/minimal-parameters-as-in-figure", {"late": 0.03, "off": 0.05}, IN_PART),
        ("induction/minimal-parameters-as-in-figure", {"late": 0.03, "off": 0.05, "v_4": 0.0}, FAILS),
        ("induction/second-layer-first-minimal", {}, HOLDS),
        ("induction/second-layer-first-minimal", {"second": 80}, IN_PART),
        ("induction/second-layer-first-minimal", {"second": 0}, FAILS),
    ],
)
def test_claims_of_the_minimal_model(claim, changes, expected):
    assert verdict(claim, of_minimal(lambda seed: minimal(seed, **changes))) == expected
    assert verdict(claim, of_minimal(minimal, 12)) == UNDECIDED


def elsewhere(plateau, independent, closest=True):
    """Runs of one model on three distributions; at its plateau with a given loss, and one on independent tokens."""

    def make(seed):
        own = staged(seed, plateau=plateau)
        if not closest:
            own = own.assign(phase=np.where(own["phase"] == "unigram", "uniform", own["phase"]))
            own["distance.unigram"] = own["distance.unigram"].clip(lower=0.2)
        share = np.where(own["step"] >= own["transition"], 0.1, 1.0)
        others = {"independent tokens": 0.21 * independent, "doubly stochastic": 0.21 * share}
        parts = [own.assign(prior="random rows"), *(own.assign(prior=name, loss=at) for name, at in others.items())]
        return pd.concat(parts, ignore_index=True)

    return many(make)


def test_other_distributions_are_compared_half_way():
    run = elsewhere(0.09, 0.1).query("seed == 0")
    assert out_of_distribution.strategies_at_half(run)
    at_first = (run["prior"] == "independent tokens") & (run["step"] == 0)
    later = run.assign(loss=run["loss"].where(~at_first, 0.2))
    assert out_of_distribution.strategies_at_half(later)
    half = (run["prior"] == "independent tokens") & (run["step"] >= 0.25 * run["transition"])
    assert not out_of_distribution.strategies_at_half(run.assign(loss=run["loss"].where(~half, 0.2)))


@pytest.mark.compiles
@pytest.mark.slow
def test_claims_of_other_distributions():
    good, bad = elsewhere(0.09, 0.1), elsewhere(0.15, 0.9, closest=False)

    def tables(first, second):
        parts = [("transformer", first), ("minimal model", second)]
        return {"curves": pd.concat([runs.assign(cell=f"{name}, k = {k}") for name, runs in parts for k in (2, 3)])}

    laws, time = "induction/other-laws-at-the-plateau", "induction/minimal-little-time-at-unigrams"
    expected = [(good, good, HOLDS, FAILS), (good, bad, IN_PART, HOLDS), (bad, bad, FAILS, UNDECIDED)]
    for first, second, of_laws, of_time in expected:
        assert verdict(laws, tables(first, second)) == of_laws
        assert verdict(time, tables(first, second)) == of_time


@pytest.mark.compiles
@pytest.mark.slow
def test_claims_of_one_layer():
    kinds = ("one layer", "one layer, absolute", "one layer and MLP", "one layer and MLP, absolute")

    def tables(low, longer=8, two=staged, each=30):
        """Runs of which so many of each kind, the first by seed, fall to half of the line."""
        runs = [many(two).assign(network="two layers", steepest=0.5)]
        for kind in kinds:
            run = many(lambda seed: still(seed).assign(loss=0.09), each)
            run["loss"] *= np.where(run["seed"] < low, 0.5, 1)
            runs.append(run.assign(network=kind, step=longer * run["step"], steepest=0.1))
        return {"curves": pd.concat([run.assign(k=k) for run in runs for k in (2, 3)])}

    claim = "induction/one-layer-never-transitions"
    assert verdict(claim, tables(0)) == UNDECIDED  # 24 runs are too few at k = 3
    assert verdict(claim, tables(10)) == FAILS
    assert verdict(claim, tables(1)) == verdict(claim, tables(3)) == UNDECIDED
    assert verdict(claim, tables(0, longer=4)) == verdict(claim, tables(0, each=29)) == UNDECIDED
    assert verdict(claim, tables(0, two=still)) == UNDECIDED


def delayed(alone, flat, mixed=None, halved=None, stage=0.1):
    """Runs of the arms that cross the level after so many steps, the given share of which alone is near unigrams."""

    def make(crossed):
        def run(seed):
            at = crossed + 40 * seed
            phase = np.where(stage * at > STEPS, "unigram", "uniform")
            return pd.DataFrame(
                {"step": STEPS, "doubly": 64 * STEPS, "loss": np.where(at <= STEPS, 0.1, 0.31), "phase": phase}
            ).assign(crossed_at=float(at) if at <= STEPS[-1] else np.nan)

        return many(run)

    arms = {"64 doubly stochastic": alone, "flat rows": flat}
    arms |= {"64 + 64 unigram": mixed or flat, "32 + 32 unigram": halved or flat}
    return {"curves": pd.concat([make(at).assign(arm=arm, k=4) for arm, at in arms.items()])}


@pytest.mark.parametrize(
    ("claim", "made", "expected"),
    [
        ("induction/unigram-free-chains-learn-faster", lambda: delayed(400, 1600), HOLDS),
        ("induction/unigram-free-chains-learn-faster", lambda: delayed(400, 600), HOLDS),
        ("induction/unigram-free-chains-learn-faster", lambda: delayed(800, 400), FAILS),
        ("induction/free-unigram-samples-slow-learning", lambda: delayed(400, 1600), HOLDS),
        ("induction/free-unigram-samples-slow-learning", lambda: delayed(400, 8000), HOLDS),
        ("induction/free-unigram-samples-slow-learning", lambda: delayed(400, 1600, halved=400), IN_PART),
        ("induction/free-unigram-samples-slow-learning", lambda: delayed(800, 400), FAILS),
        ("induction/no-long-plateau-without-unigrams", lambda: delayed(400, 1600), HOLDS),
        ("induction/no-long-plateau-without-unigrams", lambda: delayed(400, 1600, stage=0.5), FAILS),
        ("induction/no-long-plateau-without-unigrams", lambda: delayed(8000, 1600), FAILS),  # no run crosses
    ],
)
def test_claims_of_delays(claim, made, expected):
    tables = made()
    assert verdict(claim, tables) == expected
    few = {"curves": tables["curves"].query("seed < 12")}
    assert verdict(claim, few) == UNDECIDED


@pytest.mark.compiles
@pytest.mark.slow
def test_claims_of_more_symbols():
    def unseen(seed):
        run = staged(seed)
        return run.assign(phase=np.where(run["phase"] == "unigram", "uniform", run["phase"]))

    def falling(seed):
        return unseen(seed).assign(loss=0.3 * 0.97 ** np.arange(len(STEPS)))

    def tables(long, short):
        parts = {200: many(long), 100: many(short)}
        return {
            "curves": pd.concat([runs.assign(k=k, length=length) for k in (4, 8) for length, runs in parts.items()])
        }

    claim = "induction/more-symbols"
    assert verdict(claim, tables(staged, unseen)) == HOLDS
    assert verdict(claim, tables(staged, staged)) == IN_PART
    assert verdict(claim, tables(staged, falling)) == IN_PART
    assert verdict(claim, tables(falling, falling)) == UNDECIDED
    assert verdict(claim, {"curves": many(staged, k=4, length=200)}) == UNDECIDED


def grams(seed=0, *, learns=True):
    """A run through four stages, or three."""
    part = np.searchsorted((200, 400, 800 if learns else 10**6), STEPS, side="right")
    loss = np.array((0.22, 0.14, 0.085, 0.018))[part]
    phase = np.array(("uniform", "unigram", "bigram", "trigram"))[part]
    lines = {"line.uniform": 0.22, "line.unigram": 0.14, "line.bigram": 0.085, "line.trigram": 0.017}
    return pd.DataFrame({"step": STEPS, "loss": loss, "phase": phase, **lines})


def three(shares, length=200, single=0, singles=38):
    """Networks with three heads, of which the first few learn trigrams, and single heads."""
    heads = many(lambda seed: grams(seed, learns=seed < shares), series="3 and 3 heads, width 48")
    one = many(lambda seed: grams(seed, learns=seed < single), singles, series="1 and 1 heads, width 16")
    one["trial"] += 100
    return {"curves": pd.concat([heads, one]).assign(length=length, learning_rate=1e-3)}


@pytest.mark.parametrize(
    ("claim", "tables", "expected"),
    [
        ("induction/three-gram-stages", lambda: three(13), HOLDS),
        ("induction/three-gram-stages", lambda: three(1), FAILS),
        ("induction/three-gram-stages", lambda: three(0), UNDECIDED),
        ("induction/three-gram-stages", lambda: three(13, length=100), UNDECIDED),
        ("induction/three-gram-stages", lambda: three(3, length=100), UNDECIDED),
        ("induction/three-grams-near-bayes", lambda: three(13), HOLDS),
        ("induction/three-grams-near-bayes", lambda: three(2), FAILS),
        ("induction/three-grams-near-bayes", lambda: three(0), UNDECIDED),
        ("induction/single-head-three-grams-stop-at-bigrams", lambda: three(13), HOLDS),
        ("induction/single-head-three-grams-stop-at-bigrams", lambda: three(13, single=5, singles=13), FAILS),
        ("induction/single-head-three-grams-stop-at-bigrams", lambda: three(13, single=1), UNDECIDED),
        ("induction/single-head-three-grams-stop-at-bigrams", lambda: three(13, singles=13), UNDECIDED),
        ("induction/single-head-three-grams-stop-at-bigrams", lambda: three(13, length=100, single=4), UNDECIDED),
    ],
)
def test_claims_of_three_grams(claim, tables, expected):
    assert verdict(claim, tables()) == expected


@pytest.mark.parametrize(("reached", "expected"), [(0, HOLDS), (8, UNDECIDED), (9, FAILS)])
def test_single_heads_are_judged_by_their_last_losses(reached, expected):
    tables = three(13)
    curves = tables["curves"]
    learns = curves["trial"].between(100, 99 + reached)
    curves.loc[learns & (curves["step"] == STEPS[-1]), ["loss", "phase"]] = 0.06, "trigram"  # the bigram line is 0.085
    mixed = {"curves": curves.sample(frac=1, random_state=0)}
    assert verdict("induction/single-head-three-grams-stop-at-bigrams", mixed) == expected


def test_a_plateau_of_three_grams_is_at_the_line_of_bigrams():
    run = grams(learns=True).assign(trial=0)
    assert three_grams.stages_of(run) == (True, True, True)
    above = run.assign(loss=run["loss"].where(run["phase"] != "bigram", 0.12))
    assert three_grams.stages_of(above)[1] is False


def test_a_plateau_is_flat_from_a_quarter_of_the_time_on_and_the_drop_after_it_is_fast():
    run = staged()
    assert induction_phases_claims.stages_of_loss(run) == (True, True, True)
    moved = float(run["transition"].iloc[0])
    for begins, flat in ((200, True), (0.25 * moved, False)):  # the tail of the first drop is no part of the plateau
        first = run.index[run["step"] >= begins][0]
        falling = run.assign(loss=run["loss"].where(run.index != first, 0.103))  # 0.013 of a gap of 0.082
        assert induction_phases_claims.stages_of_loss(falling) == (True, flat, True)
    slow = np.interp(run["step"], [0.5 * moved, 1.5 * moved], [0.09, 0.01])
    slow = run.assign(loss=run["loss"].where(run["step"] < 200, slow))
    assert induction_phases_claims.stages_of_loss(slow)[2] is False


def test_the_stage_counts_steps_near_unigrams_and_the_longest_plateau_is_the_longest_time_within_a_tenth():
    losses = [4.0, 2.0, 1.0, 0.5, 0.49, 0.48, 0.1]
    phases = ["uniform", "unigram", "uniform", "unigram", "unigram", "bigram", "unigram"]
    run = pd.DataFrame({"step": range(7), "doubly": range(0, 70, 10), "loss": losses, "crossed_at": np.nan})
    assert unigrams_delay.times_of(run.assign(phase=phases)) == pytest.approx((30 / 60, 20 / 60))


def attending(seed=0, *, formed=True, even=True, second=400, alone=0.05):
    """A run of which the first layer is learned by step 2000 and the second at a given one; masses beside uniform."""
    run = staged(seed)
    steps = run["step"]
    first = np.where(steps >= 2000, 0.8 if formed else 0.1, 0.05 if even else 0.2)
    later = np.where(steps >= second, 0.9, 0.4)
    run = run.assign(previous=first, induction=later, uniform_previous=0.05, uniform_induction=0.4, intact=run["loss"])
    for layer, at in (("layer1", 2000), ("layer2", second)):
        run = run.assign(**{f"{layer}_{kind}": np.where(steps >= at, 0.01, 0.09) for kind in ("alone", "with_ends")})
    fallen = (steps >= 200) & (steps < second)
    return run.assign(layer2_alone=np.where(fallen, alone, run["layer2_alone"]))


HEADS = {"previous_largest": 0.95, "induction": 0.8, "uniform_induction": 0.4, "mixed_induction": 0.42}
HEADS |= {"recent": 1.1, "earliest": 0.9, "copying": 0.1, "statistical": 0.01, "explained": 0.95}


@pytest.mark.parametrize(
    ("claim", "changes", "heads", "expected"),
    [
        ("induction/attention-ends-as-induction-head", {}, {}, HOLDS),
        ("induction/attention-ends-as-induction-head", {}, {"previous_largest": 0.5}, IN_PART),
        ("induction/attention-ends-as-induction-head", {"formed": False, "even": False}, {}, FAILS),
        ("induction/heads-are-statistical", {}, {}, HOLDS),
        ("induction/heads-are-statistical", {}, {"recent": 3.0}, IN_PART),
        ("induction/heads-are-statistical", {}, {"recent": 3.0, "copying": 0.01, "explained": 0.1}, FAILS),
        ("induction/second-layer-first-transformer", {"alone": 0.045}, {}, HOLDS),
        ("induction/second-layer-first-transformer", {"alone": 0.095}, {}, IN_PART),  # beyond the untrained layer's
        ("induction/second-layer-first-transformer", {"alone": 0.09}, {}, UNDECIDED),  # neither layer closes anything
        ("induction/second-layer-first-transformer", {"alone": 0.045, "second": 2000}, {}, UNDECIDED),  # ties
        ("induction/second-layer-first-transformer", {"alone": 0.095, "second": 3000}, {"mixed_induction": 0.8}, FAILS),
    ],
)
def test_claims_of_attention(claim, changes, heads, expected):
    runs = many(lambda seed: attending(seed, **changes), 40)
    few = pd.DataFrame([{"cell": f"k = {k}", "seed": seed} for k in (2, 3) for seed in range(40)])
    tables = cells(runs) | {"heads": few.assign(**(HEADS | heads))}
    assert verdict(claim, tables) == expected
    assert verdict(claim, {name: table.query("seed < 32") for name, table in tables.items()}) == UNDECIDED


def test_the_construction_s_heads_are_statistical_and_a_sharper_copy_is_told_from_them():
    length, k = 40, 2
    weights = theory.attention_parameters(theory.bigram_construction(k, length, 1000.0, 2.5))
    one = transformer(k, length, width=3 * k, form="plain")
    found = head_measures(one, weights, weights)
    assert found["previous_largest"] == 1
    assert found["recent"] == pytest.approx(1) and found["earliest"] == pytest.approx(1)
    assert found["induction"] == found["mixed_induction"] > 0.95
    assert found["uniform_induction"] == pytest.approx(0.6, abs=0.1)
    assert found["explained"] > 0.97
    assert found["copying"] > 2 * found["statistical"]


def measured(values, error=0.001, **named):
    """One row per place from 1 on, or per entry of W, with a mean and its standard error."""
    rows = pd.DataFrame({"measured": values, "error": error})
    place = {"entry": ["11", "22", "12", "21"]} if len(values) == 4 else {"place": range(1, len(values) + 1)}
    return rows.assign(**place, length=100, sequences=1_000_000, **named)


ALTERNATING = [5.0, 6.0, 4.0, 5.0, 3.0, 4.0, 2.0, 3.0, 1.0, 2.0, 0.0]


@pytest.mark.parametrize(
    ("pair", "position", "error", "expected"),
    [
        ([0.06, 0.06, 0.03, 0.03], [3.0, 2.0, 1.0], 1e-4, HOLDS),
        ([0.10, 0.10, 0.03, 0.03], [3.0, 2.0, 1.0], 1e-4, IN_PART),
        ([0.06, 0.06, 0.03, 0.03], [2.0, 2.0, 1.0], 1e-4, UNDECIDED),
        ([0.021, 0.021, 0.03, 0.03], [1.0, 2.0, 3.0], 1e-4, FAILS),
        ([0.06, 0.06, 0.03, 0.03], [3.0, 2.0, 1.0], 1.0, UNDECIDED),
    ],
)
def test_the_first_step_on_sequences(pair, position, error, expected):
    tables = {
        "pair": measured(pair, error, step=1, prior="flat"),
        "position": measured(position, error, step=1, prior="flat"),
    }
    assert verdict("induction/figure-e1-on-sequences", tables) == expected
    few = {name: rows.assign(sequences=12_000) for name, rows in tables.items()}
    assert verdict("induction/figure-e1-on-sequences", few) == UNDECIDED


@pytest.mark.parametrize(
    ("position", "error", "expected"),
    [
        (ALTERNATING, 0.001, HOLDS),
        ([7.0, *ALTERNATING[1:]], 0.001, IN_PART),
        (ALTERNATING[::-1], 0.001, IN_PART),
        ([-value for value in ALTERNATING], 0.001, FAILS),
        (ALTERNATING, 1.0, UNDECIDED),
    ],
)
def test_even_places_are_favoured_on_sequences(position, error, expected):
    rows = measured(position, error, step=1, prior="flat")
    assert verdict("induction/figure-e2-on-sequences", {"diagonal": rows}) == expected


@pytest.mark.parametrize(
    ("pair", "position", "loss", "expected"),
    [
        ([1.0, 1.0, 0.0, 0.0], [1.0, 2.0, 1.0], 0.04, HOLDS),
        ([1.0, 1.0, 0.0, 0.0], [1.0, 2.0, 1.0], 0.06, IN_PART),
        ([1.0, 1.0, 0.0, 0.0], [1.0, 2.0, 1.0], 0.09, IN_PART),
        ([1.0, 1.0, 0.0, 0.0], [1.0, 1.0, 0.0], 0.04, UNDECIDED),
        ([0.0, 0.0, 1.0, 1.0], [1.0, 2.0, 3.0], 0.09, IN_PART),
        ([0.0, 0.0, 1.0, 1.0], [2.0, 1.0, 2.0], 0.09, FAILS),
    ],
)
def test_a_curriculum_on_sequences(pair, position, loss, expected):
    worth = {"loss": [loss], "unigram_loss": [0.1], "bigram_loss": [0.035], "source": ["measured"]}
    tables = {
        "pair": measured(pair, step=2),
        "position": measured(position, step=2),
        "predictors": pd.DataFrame(worth).assign(length=100, sequences=1_000_000),
    }
    assert verdict("induction/curriculum-on-sequences", tables) == expected


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [((), HOLDS), (("as printed",), CORRECTED), (("corrected",), IN_PART), (("as printed", "corrected"), FAILS)],
)
def test_equations_of_the_second_step_hold_with_correction(wrong, expected):
    rows = [check(rules.COMPUTATIONS, "twice", 0.0, 1e-6)]
    for form in ("as printed", "corrected"):
        rows.append(check("induction/second-step-equations", f"E.43, {form}", float(form in wrong), 1e-6))
    assert verdict("induction/second-step-equations", {"checks": pd.DataFrame(rows)}) == expected
