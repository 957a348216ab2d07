"""The rules that decide the claims on grokking mod p, on made-up tables, for every verdict that they can give."""

import numpy as np
import pandas as pd
import pytest

from elegans.experiments.claims import InsufficientData
from elegans.studies.modular_grokking import (
    analytic_solution,
    critical_fraction,
    grokking_delay,
    grokking_measures,
    slingshots,
)
from elegans.studies.modular_grokking.critical_fraction import critical, crossing_draws
from elegans.studies.modular_grokking.grokking_delay_claims import _critical_limits

CLAIMS = {
    claim.id.partition("/")[2]: claim
    for module in (grokking_delay, critical_fraction, analytic_solution, grokking_measures, slingshots)
    for claim in module.EXPERIMENT.claims
}


def verdict(name, **tables):
    return CLAIMS[name].decide(tables).verdict


def delays(times, without=None, trials=20, fit=100, error=0.9):
    """A table of the delay: steps to generalise by fraction with weight decay 1, NaN where never, and without."""
    rows = []
    for decay, by_fraction in ((1.0, times), (0.0, without or dict.fromkeys(times, np.nan))):
        for fraction, step in by_fraction.items():
            for seed in range(trials):
                at = step + 10 * (seed - trials // 2) if np.isfinite(step) else np.nan
                cell = {"p": 23, "width": 128, "fraction": fraction, "weight_decay": decay, "seed": seed}
                rows.append({**cell, "train_at": fit, "test_at": at, "test_error_when_fitted": error})
    return pd.DataFrame(rows)


FALLING = {0.4: np.nan, 0.5: 3000.0, 0.6: 1500.0, 0.7: 700.0}


def test_networks_generalise_long_after_the_fit_if_most_trials_of_the_least_fraction_do():
    name = "generalises-long-after-fit"
    assert verdict(name, table=delays(FALLING)) == "holds"
    assert verdict(name, table=delays(FALLING, fit=400)) == "fails"  # not ten times as many steps
    assert verdict(name, table=delays(FALLING, error=0.2)) == "fails"  # it knew most when it had fitted
    assert verdict(name, table=delays(FALLING, trials=8)) == "undecided"


def test_the_delay_grows_if_more_data_are_sooner_at_each_step():
    name = "delay-grows-as-data-shrink"
    assert verdict(name, table=delays(FALLING)) == "holds"
    assert verdict(name, table=delays({**FALLING, 0.6: 4000.0})) == "fails"
    assert verdict(name, table=delays({**FALLING, 0.6: 3000.0})) == "undecided"
    with pytest.raises(InsufficientData, match="three fractions"):
        CLAIMS[name].decide({"table": delays({0.5: np.nan, 0.6: 900.0, 0.7: 700.0})})


def test_weight_decay_saves_data_if_it_generalises_where_none_does_not():
    name = "weight-decay-saves-data"
    assert verdict(name, table=delays(FALLING)) == "holds"
    assert verdict(name, table=delays(dict.fromkeys(FALLING, np.nan), without=FALLING)) == "fails"
    assert verdict(name, table=delays(FALLING, without=FALLING)) == "undecided"


def test_halving_is_decided_as_finely_as_fractions_are_spaced():
    name = "weight-decay-halves-data"
    with_it = {0.2: np.nan, 0.3: 900.0, 0.4: 500.0, 0.6: 400.0, 0.8: 300.0}
    late = {**dict.fromkeys(with_it, np.nan), 0.8: 900.0}
    halved = CLAIMS[name].decide({"table": delays(with_it, without=late)})  # 0.3 / 0.6 at most
    assert (halved.verdict, halved.needs.partition(";")[0]) == ("undecided", "the source's other interventions")
    close = {**dict.fromkeys(with_it, np.nan), 0.4: 900.0, 0.6: 700.0, 0.8: 500.0}
    assert verdict(name, table=delays(with_it, without=close)) == "undecided"  # 0.2 / 0.4 to 0.3 / 0.3
    same = {0.2: np.nan, 0.3: np.nan, 0.4: 900.0, 0.6: 500.0, 0.8: 300.0}
    assert verdict(name, table=delays(same, without=same)) == "fails"
    assert CLAIMS[name].decide({"table": delays(same, without=same)}).error_rate == 0.02


def test_a_fraction_is_below_one_half_where_its_limit_or_that_of_two_is():
    counts = {0.2: ((0, 20), (0, 20)), 0.3: ((10, 20), (0, 20)), 0.4: ((20, 20), (10, 20))}
    assert [_critical_limits(counts, which) for which in (0, 1)] == [(0.2, 0.4), (0.3, np.inf)]
    few = {0.2: ((0, 6), (0, 6)), 0.3: ((0, 6), (6, 6)), 0.4: ((6, 6), (6, 6)), 0.5: ((6, 6), (6, 6))}
    assert [_critical_limits(few, which) for which in (0, 1)] == [(0.2, 0.5), (0.0, 0.4)]


@pytest.mark.compiles
@pytest.mark.slow
def test_limits_of_the_critical_fraction_err_rarely_where_rates_are_one_half():
    generator, errors = np.random.default_rng(0), np.zeros(2)
    for _ in range(2000):
        solved = generator.binomial(12, [0.02, 0.5, 0.5, 0.98])
        counts = {0.1 * i: ((int(hits), 12), (0, 12)) for i, hits in enumerate(solved, 2)}
        low, high = _critical_limits(counts, 0)
        errors += low > 0.25, high < 0.35
    assert errors.max() <= 2000 * 0.02


def test_too_few_trials_fractions_or_weight_decays_leave_the_delay_undecided():
    for name in ("generalises-long-after-fit", "weight-decay-saves-data", "weight-decay-halves-data"):
        with pytest.raises(InsufficientData):
            CLAIMS[name].decide({"table": delays(FALLING, trials=5)})
        with pytest.raises(InsufficientData):
            CLAIMS[name].decide({"table": delays({0.5: 900.0, 0.6: 500.0})})
    only = delays(FALLING)
    with pytest.raises(InsufficientData):
        CLAIMS["weight-decay-saves-data"].decide({"table": only[only["weight_decay"] == 1]})


def test_transformers_are_judged_by_the_same_rules_on_rows_of_their_own():
    for name in ("generalises-long-after-fit", "delay-grows-as-data-shrink"):
        of_transformers = f"transformers-{name.replace('generalises', 'generalise')}"
        ours = {0.6: 4000.0, 0.7: 2000.0, 0.8: 1500.0}
        given = {"trials": 100}
        late = delays(dict.fromkeys(ours, 300.0))
        assert verdict(of_transformers, table=late, transformers=delays(ours, **given)) == "holds"
        reverse = {0.6: 300.0, 0.7: 500.0, 0.8: 800.0}
        expected = "fails" if "delay" in name else "undecided"  # those of one layer refute nothing
        assert verdict(of_transformers, table=delays(ours), transformers=delays(reverse, **given)) == expected
        with pytest.raises(InsufficientData, match="transformers"):
            CLAIMS[of_transformers].decide({"table": delays(ours)})
    close = {0.6: 1000.0, 0.7: 1000.0, 0.8: 1000.0}
    assert verdict("transformers-delay-grows-as-data-shrink", transformers=delays(close, trials=100)) == "undecided"
    with pytest.raises(InsufficientData, match="100 transformers"):
        CLAIMS["transformers-delay-grows-as-data-shrink"].decide({"transformers": delays(close, trials=99)})
    few = delays({0.6: 4000.0, 0.7: 2000.0, 0.8: 1500.0}, trials=8)
    assert verdict("transformers-generalise-long-after-fit", transformers=few) == "undecided"


def shares(critical, trials=8):
    """A table of critical fractions: by task, the share of networks that generalise rises steeply around one."""
    rows = []
    for task, at in critical.items():
        for fraction in np.round(np.arange(0.2, 0.91, 0.05), 2):
            rate = float(np.clip(0.5 + (fraction - at) / 0.1, 0, 1))
            cell = {"task": f"{task} mod 23", "order": 23, "fraction": fraction, "trials": trials}
            rows.append({**cell, "solved": round(rate * trials), "rate": round(rate * trials) / trials})
    return pd.DataFrame(rows)


def of_transformers(solved, trials=12, fraction=0.7):
    """A table of transformers: by operation, how many generalise."""
    named = [{"task": f"{name} mod 31", "order": 31, "fraction": fraction, "solved": n} for name, n in solved.items()]
    return pd.DataFrame(named).assign(trials=trials, steps=600.0, budget=6000)


def test_symmetric_operations_need_less_if_more_transformers_generalise_them_from_as_many_pairs():
    name = "symmetric-operations-need-less"
    more = {"x+y": 12, "x-y": 2, "x*y": 11, "x/y": 3}
    assert verdict(name, transformers=of_transformers(more)) == "holds"
    assert verdict(name, transformers=of_transformers({"x+y": 2, "x-y": 12, "x*y": 3, "x/y": 11})) == "fails"
    assert verdict(name, transformers=of_transformers({**more, "x-y": 9, "x/y": 8})) == "undecided"
    assert verdict(name, transformers=of_transformers({**more, "x*y": 1, "x/y": 12})) == "holds in part"
    for short in (of_transformers(more).assign(budget=5000), of_transformers(more).drop(columns="budget")):
        assert verdict(name, transformers=short) == "undecided"  # the others may only be slower
    twice = pd.concat([of_transformers(more), of_transformers(more, fraction=0.8)])
    moduli = pd.concat([of_transformers(more), of_transformers(more).assign(order=41)])
    for lacking in (of_transformers({"x+y": 12, "x-y": 2}), of_transformers(more, trials=7), twice, moduli):
        with pytest.raises(InsufficientData, match="8 transformers or more"):
            CLAIMS[name].decide({"transformers": lacking})
    with pytest.raises(InsufficientData):
        CLAIMS[name].decide({"table": shares({"x+y": 0.4, "x-y": 0.6, "x*y": 0.45, "x/y": 0.7})})


def test_an_operation_is_not_learned_if_few_networks_generalise_from_any_fraction():
    name = "some-operations-are-not-learned"
    able = {"x^2+xy+y^2": 0.5}
    assert verdict(name, table=shares({"x^3+xy^2+y": 2.0, **able})) == "holds"
    assert verdict(name, table=shares({"x^3+xy^2+y": 2.0, "x^2+xy+y^2": 2.0})) == "undecided"  # no polynomial is
    assert verdict(name, table=shares({"x^3+xy^2+y": 2.0})) == "undecided"
    assert verdict(name, table=shares({"x^3+xy^2+y": 0.5})) == "fails"
    assert verdict(name, table=shares({"x^3+xy^2+y": 0.85})) == "fails"  # learned from the largest fraction alone
    assert verdict(name, table=shares({"x^3+xy^2+y": 0.9, **able}, trials=10)) == "undecided"
    with pytest.raises(InsufficientData):
        CLAIMS[name].decide({"table": shares({"x+y": 0.5})})


def test_bootstrapped_crossings_surround_the_interpolated_one_and_are_infinite_without_one():
    rows = shares({"x+y": 0.52})
    low, high = critical(rows)[["low", "high"]].iloc[0]
    assert 0.45 < low < 0.52 < high < 0.6
    assert np.isinf(np.median(crossing_draws(shares({"x+y": 2.0}))))


def ends(trials=8, **columns):
    """A table of networks at the end of training, good ones by default."""
    good = {"p": 23, "width": 128, "fraction": 0.7, "train_at": 100.0, "test_at": 500.0, "test_error_when_fitted": 0.9}
    good |= {"cosines": 1.0, "phases": 0.2, "shares": 0.9, **columns}
    return pd.DataFrame([{"optimiser": name, "seed": i, **good} for name in ("gd", "adamw") for i in range(trials)])


def test_grokking_without_regularisation_needs_a_late_fall_in_most_trials():
    name = "groks-without-regularisation"
    assert verdict(name, table=ends()) == "holds"
    assert verdict(name, table=ends(test_at=np.nan)) == "fails"
    assert verdict(name, table=ends(test_error_when_fitted=0.1)) == "fails"
    mixed = ends()
    mixed.loc[mixed["seed"] < 4, "test_at"] = np.nan
    assert verdict(name, table=mixed) == "undecided"
    with pytest.raises(InsufficientData):
        CLAIMS[name].decide({"table": ends(train_at=np.nan)})


def form_course(shares, p=97):
    """The course of the median share of power at one frequency, the same for each optimiser."""
    cell = {"p": p, "width": 128, "fraction": 0.7}
    return pd.DataFrame([{"optimiser": name, **cell, "shares": share} for name in ("gd", "adamw") for share in shares])


def test_the_analytic_form_has_two_parts_for_each_optimiser():
    name = "networks-learn-the-analytic-form"
    assert verdict(name, table=ends()) == "holds"
    mixed = {"p": 97, "shares": 0.5}
    assert verdict(name, table=ends(**mixed), course=form_course([0.4, 0.5, 0.5])) == "holds in part"
    other = ends(**mixed, phases=1.5, cosines=0.1)
    assert verdict(name, table=other, course=form_course([0.4, 0.5, 0.5])) == "fails"
    assert verdict(name, table=other, course=form_course([0.3, 0.4, 0.5])) == "undecided"  # the share still rises
    assert verdict(name, table=other.assign(p=23), course=form_course([0.4, 0.5, 0.5], p=23)) == "undecided"
    straddling = ends()
    straddling.loc[straddling["seed"] < 2, "shares"] = 0.5
    assert verdict(name, table=straddling) == "undecided"
    assert verdict(name, table=ends(trials=7)) == "undecided"
    for lacking in (ends(test_at=np.nan), ends(trials=5)):
        with pytest.raises(InsufficientData):
            CLAIMS[name].decide({"table": lacking})


def test_the_analytic_solution_is_judged_at_large_widths_alone():
    rows = pd.DataFrame(
        {"p": 23, "width": [32, 128, 256], "accuracy": [0.8, 0.995, 1], "low": 0.6, "bound": 0.5, "draws": 20}
    )
    assert verdict("analytic-solution-is-accurate", analytic=rows) == "holds"
    assert verdict("analytic-solution-is-accurate", analytic=rows.assign(accuracy=0.9)) == "fails"
    assert verdict("analytic-solution-is-accurate", analytic=rows.assign(accuracy=[0.8, 0.9, 1])) == "undecided"
    with pytest.raises(InsufficientData):
        CLAIMS["analytic-solution-is-accurate"].decide({"analytic": rows[:1]})


def formed(trials=10, kind="transformer", **columns):
    """A table of phases of transformers that show all of them, but for what is given."""
    good = {"train": 0.01, "restricted": 0.2, "excluded": 1.5, "norm": 0.6}
    good |= {"first_before": 0.3, "first_after": 0.9}
    rows = [{"network": f"{kind}, 30% of the pairs", "seed": i, "generalised": True, **good} for i in range(trials)]
    return pd.DataFrame(rows).assign(**columns)


def half(good, bad, trials=10):
    return [good, bad] * (trials // 2)


def test_measures_improve_before_a_transformer_generalises_or_with_it():
    name = "progress-measures-predict-generalisation"
    assert verdict(name, phases=formed()) == "holds"
    assert verdict(name, phases=formed(excluded=1.0)) == "holds in part"
    assert verdict(name, phases=formed(restricted=0.9, excluded=1.0)) == "fails"
    assert verdict(name, phases=formed(excluded=half(1.5, 1.0))) == "undecided"
    mixed = CLAIMS[name].decide({"phases": pd.concat([formed(), formed(kind="ReLU", excluded=1.0)])})
    assert mixed.verdict == "holds"  # others are reported
    assert mixed.numbers["ReLU, 30% of the pairs"]["the excluded loss has risen"] == 0
    for lacking in (formed(kind="ReLU"), formed(trials=6)):
        with pytest.raises(InsufficientData):
            CLAIMS[name].decide({"phases": lacking})


def test_the_three_phases_are_four_changes_in_most_transformers_that_generalise():
    name = "transformers-grok-in-three-phases"
    assert verdict(name, phases=formed()) == "holds"
    for column, value in {"train": 0.5, "restricted": 0.9, "excluded": 1.05, "norm": 0.95}.items():
        assert verdict(name, phases=formed(**{column: value})) == "holds in part"
        assert verdict(name, phases=formed(**{column: half(formed()[column][0], value)})) == "undecided"
    assert verdict(name, phases=formed(train=0.5, restricted=0.9, excluded=1.0, norm=1.1)) == "fails"
    others = pd.concat([formed(kind="quadratic"), formed(generalised=False), formed(6)])
    with pytest.raises(InsufficientData, match="7 transformers that generalise"):
        CLAIMS[name].decide({"phases": others})


def test_an_embedding_becomes_sparse_if_five_frequencies_hold_most_of_it_at_the_end_alone():
    name = "transformer-embeddings-become-sparse"
    assert verdict(name, phases=formed()) == "holds"
    assert verdict(name, phases=formed(first_after=0.7)) == "fails"
    assert verdict(name, phases=formed(first_before=0.6)) == "fails"
    assert verdict(name, phases=formed(first_after=half(0.9, 0.7))) == "undecided"
    for lacking in (formed(6), formed(generalised=False), formed(kind="ReLU")):
        with pytest.raises(InsufficientData):
            CLAIMS[name].decide({"phases": lacking})


def spiking(trials=12, **arms):
    """A table of slingshots: by arm, how many trials have spikes, at which the norm jumps."""
    names = {"rounded": "rounded", "kept": "small terms kept", "larger": "rounded, larger epsilon"}
    names |= {"middle": "rounded, epsilon 1e-5", "smaller": "rounded, epsilon 1e-6"}
    rows = [
        {"arm": names[arm], "seed": seed, "spikes": 3 * (seed < hits), "jump": 10.0 if seed < hits else 3.0}
        for arm, hits in arms.items()
        for seed in range(trials)
    ]
    table = pd.DataFrame(rows)
    return table.assign(fitted_at=200.0, least=1e-8, cycles=table["spikes"])


def test_slingshots_are_judged_with_the_rounded_loss_and_by_jumps_of_the_norm():
    name = "slingshots-are-of-adaptive-optimisers"
    for kept in (0, 12):
        found = CLAIMS[name].decide({"table": spiking(rounded=12, kept=kept, larger=0)})
        assert (found.verdict, found.numbers["small terms kept"]["successes"]) == ("holds", kept)
    assert verdict(name, table=spiking(rounded=0, kept=12, larger=0)) == "fails"
    assert verdict(name, table=spiking(rounded=6, kept=12, larger=0)) == "undecided"
    assert verdict(name, table=spiking(rounded=12, kept=12, larger=0).assign(jump=3.0)) == "fails"  # it never jumps
    assert verdict(name, table=spiking(rounded=12, kept=12, larger=0).assign(cycles=1)) == "fails"  # nor stands still
    uncounted = spiking(rounded=12, kept=0, larger=0).drop(columns="cycles")
    for lacking in (uncounted, spiking(rounded=12, kept=0), spiking(trials=6, rounded=6, kept=6, larger=0)):
        with pytest.raises(InsufficientData):
            CLAIMS[name].decide({"table": lacking})


def test_a_cycle_is_a_spike_after_growth_and_before_a_plateau():
    loss = np.full(100, 1e-7)
    loss[[30, 60, 98]] = 1e-2
    growing, stairs = np.arange(100.0), np.interp(np.arange(100), [0, 24, 30, 54, 60, 100], [0, 0, 6, 6, 12, 12])
    assert slingshots.spikes(loss) == [30, 60, 98]
    assert [slingshots.cycles(loss, norm) for norm in (stairs, growing, -stairs)] == [2, 0, 0]


def test_epsilon_prevents_slingshots_at_the_largest_epsilon_with_which_the_loss_rounds():
    name, less = "epsilon-prevents-slingshots", {"middle": 12, "smaller": 12}
    assert verdict(name, table=spiking(rounded=12, larger=0, **less)) == "holds"
    assert verdict(name, table=spiking(rounded=12, larger=12, **less)) == "fails"
    assert verdict(name, table=spiking(rounded=12, larger=3, **less)) == "undecided"
    slow = spiking(rounded=12, larger=0, middle=0, smaller=12)
    slow.loc[(slow["arm"] == "rounded, larger epsilon") & (slow["seed"] > 8), "least"] = 1e-6
    assert verdict(name, table=slow) == "holds"  # by the middle one
    slow.loc[slow["arm"] == "rounded, epsilon 1e-5", "least"] = 1e-6
    assert verdict(name, table=slow) == "undecided"  # a larger one may still prevent them
    with pytest.raises(InsufficientData, match="spikes in most"):
        CLAIMS[name].decide({"table": spiking(rounded=6, larger=0, **less)})
    early = spiking(rounded=12, larger=0, **less)
    for lacking in (early.assign(least=1e-6), early.assign(fitted_at=np.nan)):
        with pytest.raises(InsufficientData, match="loss below 1e-7"):
            CLAIMS[name].decide({"table": lacking})
