"""Why this engine: reasons, projected time, and a note where the general engine trains."""

import pytest

import elegans as el
from elegans.training import engines
from elegans.training.engines import fallback

FAST = el.Trial(
    task=el.SparseParity(n=10, k=1),
    regime=el.Sample(50),
    model=el.MLP(width=5),
    training=el.SGD(steps=2000, stopping=el.StoppingRule(examples=50)),
)
SLOW = FAST.replace("training", el.training.AdaDelta(steps=20, stopping=el.StoppingRule(examples=50)))
NATIVE = pytest.mark.skipif(engines.ENGINES["fused"].unavailable() is not None, reason="of the native engine")


@pytest.mark.slow
@NATIVE
def test_a_trial_is_explained_by_its_engine_the_reasons_against_others_and_its_time():
    found = FAST.explain()
    assert (found.engine, found.refused, found.steps) == ("fused", {}, 2000)
    assert 0 < found.cost.step < 1e-2
    assert found.seconds == pytest.approx(found.cost.of(FAST, ()))
    slow = el.explain(SLOW, budget=0.1)
    assert slow.engine == "jax" and slow.refused["fused"] == "the fused engine takes no training 'adadelta'"
    assert str(slow).splitlines()[:2] == ["engine  jax", "  not fused: the fused engine takes no training 'adadelta'"]
    assert "20 steps" in str(slow)


@NATIVE
def test_only_what_auto_leaves_to_the_general_engine_is_noted_with_the_nearest_reason():
    assert fallback(FAST) is None and fallback(SLOW, "jax") is None
    assert "no native engine takes model 'mlp' on task 'sparse-parity'" in fallback(SLOW)
    penalised = FAST.replace("training.penalty", {"kind": "norm", "strength": 0.1, "outer": 1, "exponent": 2})
    expected = "native one: the fused engine takes no penalty 'norm'; with penalty=None the fused engine trains it"
    assert fallback(penalised).endswith(expected)


@NATIVE
def test_a_small_change_that_makes_a_trial_native_is_said_unasked():
    """Default biases put modular addition on the general engine, where it takes several times as long."""
    model = el.MLP(width=20, activation="power:2")
    training = el.AdamW(steps=10, batch_size=24, loss="cross-entropy")
    addition = el.Trial(task=el.ModularAddition(p=7), regime=el.Split(0.5), model=model, training=training)
    assert fallback(addition).endswith("with hidden_bias=False and output_bias=False the pairs engine trains it")
    small = addition.replace("model.hidden_bias", False).replace("model.output_bias", False)
    assert fallback(small) is None
    assert "engine trains it" not in fallback(SLOW)


@pytest.mark.slow
@NATIVE
def test_the_note_is_written_once_where_someone_looks(capsys):
    trial = SLOW.replace("training.steps", 3)
    el.train(trial)
    assert capsys.readouterr().err == ""
    el.display.note.cache_clear()
    el.train(trial, progress=True)
    el.run(el.grid(trial, {}), progress=True)
    assert capsys.readouterr().err.count("note: the jax engine trains this") == 1


@pytest.mark.slow
def test_the_command_explains_a_trial(run_apart, tmp_path):
    (tmp_path / "trial.toml").write_text(FAST.to_toml())
    ended = run_apart(tmp_path, "-m", "elegans", "explain", "trial.toml")
    assert ended.code == 0 and ended.out.startswith("engine  ") and "2,000 steps" in ended.out
    assert run_apart(tmp_path, "-m", "elegans", "explain", "none.toml").code == 2
