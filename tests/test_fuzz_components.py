"""Components of any description, as JSON, TOML, options and dotted columns, are made or refused in one line."""

import json

import pytest
import tomli_w
from hypothesis import HealthCheck, Phase, given, settings, strategies as st

import elegans as el
from elegans.cli.options import assign, literal
from elegans.component import Component
from elegans.errors import ElegansError
from elegans.models.inits import Init
from elegans.training.losses import Loss
from elegans.training.schedules import Schedule

TRIAL = el.Trial(
    task=el.SparseParity(n=10, k=2), regime=el.Sample(100), model=el.MLP(width=4), training=el.SGD(steps=5)
)
FAMILIES = {"task": el.Task, "regime": el.Regime, "model": el.Model, "training": el.Training}
INNER = (Init, Loss, Schedule)
KINDS = sorted({kind for family in (*FAMILIES.values(), *INNER) for kind in family.members()})
FIELDS = sorted(
    {name for family in (*FAMILIES.values(), *INNER) for one in family.members().values() for name in one.model_fields}
)
NUMBERS = st.one_of(st.integers(-3, 200), st.sampled_from([2**31, 2**32, 2**63, 2**64, 10**30, -(10**30)]), st.floats())
WORDS = st.one_of(
    st.sampled_from([*KINDS, "sparse:2", "sample:10", "sparse:x", "zzz", "", "a\nb", "\x1b[2J"]), st.text(max_size=8)
)
PLAIN = st.one_of(st.none(), st.booleans(), NUMBERS, WORDS)


def _records(values):
    keys = st.one_of(st.just("kind"), st.sampled_from(FIELDS), st.text(max_size=4))
    return st.one_of(
        st.lists(values, max_size=4),
        st.dictionaries(keys, values, max_size=5),
        st.builds(
            lambda kind, fields: {"kind": kind, **fields},
            st.sampled_from(KINDS),
            st.dictionaries(keys, values, max_size=4),
        ),
    )


ANY = st.recursive(PLAIN, _records, max_leaves=12)
TRIALS = st.builds(
    lambda whole, changes: {**whole, **changes},
    st.just(json.loads(TRIAL.to_json())),
    st.dictionaries(st.sampled_from([*FAMILIES, "seed", "restart", "sede"]), ANY, max_size=2),
)
PATHS = st.one_of(
    st.sampled_from(
        ["seed", "task.n", "regime", "regime.size", "model.width", "model.init", "training.loss", "training"]
    ),
    st.builds(".".join, st.lists(st.sampled_from([*FIELDS, *FAMILIES, "", "x"]), min_size=1, max_size=80)),
)
BOUNDED = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def made(make):
    """Return what is made, or None where it is refused in one line."""
    try:
        return make()
    except ElegansError as error:
        assert "\n" not in str(error)
        return None


@pytest.mark.slow
@BOUNDED
@given(st.one_of(TRIALS, ANY))
def test_a_trial_of_any_json_is_made_or_refused_and_comes_back(record):
    trial = made(lambda: el.Trial.from_json(json.dumps(record)))
    assert trial is None or el.Trial.from_json(trial.to_json()) == trial


@BOUNDED
@given(st.one_of(TRIALS, st.dictionaries(st.text(max_size=4), ANY, max_size=3)))
def test_a_trial_of_any_toml_is_made_or_refused(record):
    try:
        text = tomli_w.dumps(_without_none(record))
    except (UnicodeError, ValueError):  # what TOML cannot say
        return
    made(lambda: el.Trial.from_toml(text))


@BOUNDED
@given(st.text(alphabet="[]{}=.\"'\\\n #0123456789eE_+-:abnxz", max_size=60))
def test_any_text_is_a_trial_or_refused(text):
    made(lambda: el.Trial.from_toml(text))
    made(lambda: el.Trial.from_json(text))


@BOUNDED
@given(st.sampled_from([*FAMILIES.values(), *INNER]), ANY)
def test_a_component_of_any_record_is_made_or_refused_and_comes_back(family, record):
    component = made(lambda: family.parse(record))
    assert component is None or family.parse(json.loads(component.model_dump_json())) == component


@BOUNDED
@given(PATHS, ANY)
def test_a_dotted_column_of_any_name_and_value_is_taken_or_refused(path, value):
    replaced = made(lambda: TRIAL.replace(path, value))
    assert replaced is None or isinstance(replaced, Component)


def test_further_lines_of_an_option_are_no_part_of_its_value():
    assert literal("[1,\n2]") == [1, 2]
    assert literal("1\nseed = 3") == "1\nseed = 3"


@BOUNDED
@given(PATHS, st.text(max_size=20))
def test_an_option_of_any_path_and_text_is_taken_or_refused(path, text):
    record = json.loads(TRIAL.to_json())
    made(lambda: assign(record, path, literal(text)))
    made(lambda: el.Trial.parse(record))


def _without_none(value):
    if isinstance(value, dict):
        return {key: _without_none(inner) for key, inner in value.items() if inner is not None}
    return [_without_none(inner) for inner in value if inner is not None] if isinstance(value, list) else value
