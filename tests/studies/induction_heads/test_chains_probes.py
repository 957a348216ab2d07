"""What is measured of networks on Markov chains: against the closed forms, on networks whose attention is known."""

import jax
import numpy as np
import pytest

import elegans as el
from elegans import theory
from elegans.errors import TrialError
from elegans.probes import ParameterTrajectory, Snapshot
from elegans.studies.induction_heads.measures import chain_loss, parity_bias, strategy_distances
from elegans.studies.induction_heads.probes import AttentionMaps, AttentionScores, ChainLosses, PositionalProfile

TASK = el.MarkovChains(k=3, length=12)
MODEL = el.AttentionOnly(form="plain", width=9)
CONSTRUCTION = theory.attention_parameters(theory.bigram_construction(3, 12, slope=2.5))
COUNT = 100


def snapshot(parameters=CONSTRUCTION, *, task=TASK, model=MODEL):
    """A network as a probe sees it; without parameters, as it begins."""
    initial = model.initialise(el.random.stream(0, "init"), task)
    return Snapshot(
        step=0,
        task=task,
        model=model,
        hidden=None,
        sample_size=None,
        key=lambda name: el.random.stream(0, name),
        read_parameters=lambda: initial if parameters is None else parameters,
        wrong=lambda stream, index: np.zeros(len(index), bool),
    )


def held_out(task=TASK):
    """The test set's tokens and the true laws."""
    key, index = el.random.stream(0, "test"), np.arange(COUNT, dtype=np.uint32)
    return task.examples(None, key, index)[0], task.conditionals(None, key, index)


def softmax(logits):
    """The laws of logits."""
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def test_losses_of_the_construction_are_those_of_its_frequencies():
    tokens, true = held_out()
    predicted = softmax(2.5 * theory.construction_frequencies(tokens, 3))
    found = ChainLosses(examples=COUNT, positions=True).measure(snapshot())
    curve = chain_loss(true, predicted)
    assert found["loss.positions"] == pytest.approx(curve.divergence, abs=1e-5)
    assert found["cross_entropy.positions"] == pytest.approx(curve.cross_entropy, abs=1e-5)
    assert found["loss"] == pytest.approx(curve.divergence[-1], abs=1e-5)
    assert found["cross_entropy"] == pytest.approx(curve.cross_entropy[-1], abs=1e-5)
    strategies = theory.chain_strategies(tokens, 3)
    for reverse, name in ((False, "distance"), (True, "reverse")):
        for strategy, distance in strategy_distances(predicted, strategies, reverse=reverse).items():
            assert found[f"{name}.{strategy}"] == pytest.approx(distance, abs=1e-5)
    for strategy, known in strategies.items():
        assert found[f"line.{strategy}"] == pytest.approx(chain_loss(true, known).divergence[-1])


def test_looking_at_the_last_position_alone_finds_the_same():
    last, whole = (ChainLosses(examples=COUNT, positions=how).measure(snapshot()) for how in (False, True))
    assert {name: whole[name] for name in last} == pytest.approx(last)
    assert set(whole) - set(last) == {"loss.positions", "cross_entropy.positions"}


@pytest.mark.parametrize(("scale", "slope", "phase"), [(100, 0.0, 0), (0.001, 2.0, 1), (100, 2.5, 2)])
def test_the_phase_is_the_order_of_the_closest_strategy(scale, slope, phase):
    """No slope is a uniform guess; without a sharp attention frequencies are those of all tokens."""
    network = theory.bigram_construction(3, 12, scale, slope)
    found = ChainLosses(examples=COUNT).measure(snapshot(theory.attention_parameters(network)))
    names = ["uniform", "unigram", "bigram"]
    assert found["phase"] == phase == np.argmin([found[f"distance.{name}"] for name in names])


def test_other_distributions_of_chains_are_measured_as_tasks_of_their_own():
    probe = ChainLosses(examples=COUNT, priors=["unigram", "doubly-stochastic"])
    found = probe.measure(snapshot())
    for label, prior in (("unigram", "unigram"), ("doubly-stochastic:uniform", "doubly-stochastic")):
        alone = ChainLosses(examples=COUNT).measure(snapshot(task=el.MarkovChains(k=3, length=12, prior=prior)))
        assert {name: found[f"{label}.{name}"] for name in alone} == pytest.approx(alone)
    assert found["unigram.line.unigram"] < found["unigram.line.bigram"]


def test_networks_that_have_diverged_are_in_no_phase():
    broken = {part: {name: array * np.nan for name, array in arrays.items()} for part, arrays in CONSTRUCTION.items()}
    found = ChainLosses(examples=COUNT).measure(snapshot(broken))
    assert np.isnan([found["loss"], found["phase"], found["distance.bigram"]]).all()


def test_scores_are_the_masses_of_attention_head_by_head():
    model, tokens = el.AttentionOnly(width=8, heads=(1, 2)), held_out()[0]
    generator = np.random.default_rng(0)
    drawn = model.initialise(el.random.stream(0, "init"), TASK)
    loud = {
        part: {name: a + generator.normal(size=a.shape) for name, a in arrays.items()} for part, arrays in drawn.items()
    }
    found = AttentionScores(examples=COUNT).measure(snapshot(loud, model=model))
    follows = tokens[:, :-1] == tokens[:, -1:]
    assert found["uniform.induction"] == pytest.approx(follows.sum(axis=1).mean() / 12)
    assert found["uniform.previous"] == pytest.approx(np.mean([1 / i for i in range(2, 13)]))
    for layer, weights in enumerate(jax.jit(model.attention)(loud, tokens).weights, 1):
        for head in range(weights.shape[1]):
            own = np.asarray(weights[:, head])
            induction = (own[:, -1, 1:] * follows).sum(axis=1).mean()
            previous = np.mean([own[:, i, i - 1] for i in range(1, 12)])
            assert found[f"layer{layer}.induction"][head] == pytest.approx(induction, abs=1e-4)
            assert found[f"layer{layer}.previous"][head] == pytest.approx(previous, abs=1e-4)


def test_the_construction_attends_to_the_previous_token_and_then_to_what_followed():
    found = AttentionScores(examples=COUNT).measure(snapshot())
    assert found["layer1.previous"] == pytest.approx([1], abs=1e-6)
    assert found["layer2.induction"][0] > 0.8 > 2 * found["uniform.induction"]


def test_maps_are_the_attention_of_one_sequence():
    sequence = (0, 1, 1, 2, 0)
    found = AttentionMaps(tokens=sequence).measure(snapshot())
    expected = theory.attention_pass(theory.bigram_construction(3, 12), np.array([sequence]))
    assert found["tokens"].tolist() == list(sequence)
    for layer in (1, 2):
        assert found[f"layer{layer}"][0] == pytest.approx(expected.attention[layer - 1][0], abs=1e-5)
        assert found[f"layer{layer}.logits"][0] == pytest.approx(expected.scores[layer - 1][0], rel=1e-5)


def test_profiles_are_logits_by_distance_and_the_minimal_models_positions():
    generator = np.random.default_rng(1)
    model = el.AttentionOnly(form="plain", width=4, heads=2)
    drawn = model.initialise(el.random.stream(0, "init"), TASK)
    drawn["layer1"] = {name: generator.normal(size=a.shape) for name, a in drawn["layer1"].items()}
    found = PositionalProfile().measure(snapshot(drawn, model=model))
    for head, own in enumerate((slice(0, 2), slice(2, 4))):
        query = drawn["embedding"]["token"] @ drawn["layer1"]["query"][:, own]
        logits = query @ drawn["layer1"]["relative"][:, own].T / np.sqrt(2)
        profile = logits.mean(axis=0) - logits.mean()
        assert found["profile"][head] == pytest.approx(profile, abs=1e-5)
        assert found["parity_bias"][head] == pytest.approx(parity_bias(profile), abs=1e-5)
        assert found["encoding"][head] == pytest.approx(softmax(logits).mean(axis=0), abs=1e-5)
        assert found["logits"][head] == pytest.approx(logits, abs=1e-5)
        key = drawn["embedding"]["token"] @ drawn["layer1"]["key"][:, own]
        assert found["content"][head] == pytest.approx(query @ key.T / np.sqrt(2), abs=1e-5)
    weights = {"pair": np.eye(3), "position": np.arange(12.0)}
    minimal = PositionalProfile().measure(snapshot(weights, model=el.studies.MinimalAttention()))
    assert minimal["profile"].tolist() == [list(range(12))] and minimal["parity_bias"] == pytest.approx([-1])


def test_parameters_are_kept_by_their_names():
    found = ParameterTrajectory(names=["layer2", "output.weight"]).measure(snapshot())
    assert set(found) == {"output.weight", *(f"layer2.{name}" for name in CONSTRUCTION["layer2"])}
    assert np.array_equal(found["layer2.key"], CONSTRUCTION["layer2"]["key"])
    assert set(ParameterTrajectory().measure(snapshot())) == set(MODEL.parameter_names(TASK))


@pytest.mark.parametrize(
    ("probe", "changes", "message"),
    [
        (
            ChainLosses(),
            {"task": el.SparseParity(n=6, k=2), "model": el.MLP(width=4)},
            "task of Markov chains",
        ),
        (ChainLosses(order=13), {}, "order of strategies must be at most the length: order=13, length=12"),
        (ChainLosses(priors=["ngram:3", "ngram:3"]), {}, "priors must have labels of their own"),
        (ChainLosses(priors=["symmetric2"]), {}, "k of symmetric2 must be 2: k=3"),
        (AttentionScores(), {"model": el.studies.MinimalAttention()}, "needs a transformer: minimal-attention"),
        (AttentionMaps(tokens=(0, 3)), {}, r"tokens must lie in 0..k-1 and not be empty: tokens=\(0, 3\), k=3"),
        (AttentionMaps(tokens=(0,) * 13), {}, "13 tokens, length=12"),
        (PositionalProfile(), {"model": el.AttentionOnly(positions="absolute")}, "with relative positions"),
        (PositionalProfile(), {"task": el.MarkovChains(k=3, length=6)}, "at least 7 tokens: length=6"),
        (
            ParameterTrajectory(names=["layer3"]),
            {},
            "parameters or layers of the model: 'layer3'",
        ),
    ],
)
def test_what_cannot_be_measured_is_refused(probe, changes, message):
    task, model = changes.get("task", TASK), changes.get("model", MODEL)
    with pytest.raises((ValueError, TrialError), match=message):
        probe.check(task, model)


class Reversed(el.Task):
    """A task on tokens that is not one of Markov chains: the label of a sequence is its first token."""

    @property
    def input_size(self):
        return 9

    @property
    def symbols(self):
        return 4

    @property
    def classes(self):
        return 4

    def examples(self, hidden, key, index):
        places = np.arange(9, dtype=np.uint32)[None, :]
        tokens = el.random.integers(key, index[:, None], lane=places, bound=np.uint32(4)).astype(np.int32)
        return tokens, tokens[:, ::-1]


@pytest.mark.compiles
@pytest.mark.slow
def test_attention_is_measured_on_any_task_of_tokens():
    probes = [AttentionMaps(length=5), AttentionScores(examples=8), PositionalProfile()]
    trial = el.Trial(
        task=Reversed(),
        regime=el.Online(),
        model=el.AttentionOnly(width=4),
        training=el.Adam(steps=2, loss="cross-entropy", stopping=el.StoppingRule(examples=20)),
    )
    measures = el.train(trial, probes=probes).measures
    assert measures["attention-maps"]["layer2"][0].shape == (1, 5, 5)
    assert np.allclose(measures["attention-maps"]["layer1"][0].sum(axis=-1), 1, atol=1e-5)
    assert measures["positional-profile"]["encoding"][0].shape == (1, 9)
    assert 0 < measures["attention-scores"]["layer1.previous"][0][0] < 1


@pytest.mark.parametrize("probe", [AttentionMaps(), AttentionScores(), PositionalProfile()])
def test_what_a_task_or_model_lacks_is_named(probe):
    with pytest.raises(ValueError, match="must have a task of tokens: sparse-parity has symbols=None"):
        probe.check(el.SparseParity(n=9, k=2), MODEL)
    with pytest.raises(ValueError, match="Markov chains, whose true distributions it knows: reversed"):
        ChainLosses().check(Reversed(), MODEL)
    with pytest.raises(ValueError, match="must have a task of token sequences: 'sparse-parity' has symbols=None"):
        MODEL.check(el.SparseParity(n=9, k=2))
