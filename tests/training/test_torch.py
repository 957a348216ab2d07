"""Networks go to PyTorch and come back; these tests run where it is installed, by ``make test-torch``."""

import numpy as np
import pytest

import elegans as el
from elegans.errors import TrialError
from elegans.training import TrainedNetwork

torch = pytest.importorskip("torch")
models = el.models
SIGNS, TOKENS, PAIRS = el.SparseParity(n=8, k=2), el.MarkovChains(k=3, length=6), el.ModularAddition(p=5)
UNBIASED = {"hidden_bias": False, "output_bias": False}


class Wave(el.Activation):
    """An activation that runs on NumPy's arrays only."""

    def value(self, z):
        return np.sin(np.asarray(z)) * z

    def derivative(self, z):
        return np.cos(z) * z + np.sin(z)


class Doubled(el.PolyNet):
    """A model of one's own, written with operators that tensors have."""

    def apply(self, parameters, x):
        return 2 * super().apply(parameters, x)


class Foreign(el.PolyNet):
    """A model of one's own that tensors cannot run."""

    def apply(self, parameters, x):
        import jax.numpy as jnp

        return jnp.prod(x @ jnp.asarray(parameters["hidden"]["weight"]).T, axis=1)


CASES = [
    (SIGNS, el.MLP(width=5)),
    (SIGNS, el.MLP(width=5, readout=False)),
    (SIGNS, el.MLP(width=5, output_bias=False, scaling="mean-field")),
    (SIGNS, el.MLP(width=5, output_count=2)),
    (SIGNS, el.MLP(width=5, activation="zigzag:3")),
    (SIGNS, el.MLP(width=5, activation="sinusoid:3")),
    (SIGNS, el.MLP(width=5, activation=Wave())),
    (PAIRS, el.MLP(width=4, **UNBIASED)),
    (SIGNS, el.DeepMLP(widths=(4, 3))),
    (SIGNS, el.PolyNet(degree=2)),
    (SIGNS, Doubled(degree=2)),
    (SIGNS, el.DisjointPolyNet(degree=2)),
    (SIGNS, models.LinearPredictor()),
    (SIGNS, models.RandomReLU(width=4)),
    (SIGNS, models.RandomFourier(width=4)),
    (SIGNS, models.GatedLinear(width=4)),
    (TOKENS, el.AttentionOnly(width=4, std=0.5)),
    (TOKENS, el.AttentionOnly(width=4, std=0.5, heads=(2, 1), form="plain")),
    (TOKENS, el.AttentionOnly(width=4, std=0.5, heads=2, positions="absolute", mlp_width=7)),
    (TOKENS, el.AttentionOnly(width=4, std=0.5, layers=1, form="plain", positions="absolute", mlp_width=7)),
    (SIGNS, el.ParityTransformer(width=8, heads=3, head_size=4)),
    (PAIRS, el.PairTransformer(width=8, heads=2, head_size=4, mlp_width=9)),
    (SIGNS, el.BooleanTransformer(width=16, heads=4, std=0.5)),
    (SIGNS, el.BooleanTransformer(width=16, heads=4, std=0.5, encoding="bag", mlp=(8, 7))),
    (SIGNS, el.BooleanTransformer(width=16, heads=4, std=0.5, encoding="fixed", form="plain")),
]


def trial_of(task, model):
    loss = "cross-entropy" if model.outputs(task) > 1 else "hinge"
    training = el.SGD(steps=3, loss=loss, batch_size=8)
    return el.Trial(task=task, regime=el.Online(), model=model, training=training)


def network_of(task, model):
    """Return a network none of whose parameters is zero."""
    trial = trial_of(task, model)
    generator = np.random.default_rng(0)

    def moved(part):
        if isinstance(part, dict):
            return {name: moved(value) for name, value in part.items()}
        return part + generator.normal(scale=0.1, size=part.shape).astype(np.float32)

    return TrainedNetwork(trial, moved(model.initialise(trial.key("init"), task)))


@pytest.mark.parametrize(("task", "model"), CASES, ids=[f"{i}-{model.kind}" for i, (_, model) in enumerate(CASES)])
def test_a_module_has_the_outputs_names_and_gradients_of_its_network_and_goes_back(task, model):
    network = network_of(task, model)
    x, _ = network.examples(50)
    module, calls = network.to_torch(), []
    for name, part in module.named_modules():
        part.register_forward_hook(lambda *_, name=name: calls.append(name))
    outputs, expected = module(torch.from_numpy(x)), network(x)
    np.testing.assert_allclose(outputs.detach().numpy(), expected, rtol=0, atol=1e-5 * np.abs(expected).max())
    if type(model) is not Doubled:  # of a model of one's own, parts are no functions
        assert sorted(calls) == sorted(name for name, _ in module.named_modules())
    outputs.square().mean().backward()
    trained = [each for each in module.parameters() if each.requires_grad]
    assert trained and all(float(each.grad.abs().sum()) > 0 for each in trained)
    assert {name: array.shape for name, array in network.weights.items()} == {
        name: tuple(each.shape) for name, each in module.state_dict().items()
    }
    again = el.from_torch(module, network.trial)
    assert all((again.weights[name] == array).all() for name, array in network.weights.items())


def test_gradients_of_an_activation_that_runs_on_numpy_only_are_its_derivative():
    network = network_of(SIGNS, el.MLP(width=5, activation=Wave()))
    module, z = network.to_torch(), torch.linspace(-2, 2, 9, requires_grad=True)
    module.activation(z).sum().backward()
    np.testing.assert_allclose(z.grad.numpy(), Wave().derivative(z.detach().numpy()), rtol=1e-6)


def test_hooks_see_the_attention_of_each_layer():
    network = network_of(TOKENS, el.AttentionOnly(width=4, std=0.5, heads=2))
    x, _ = network.examples(3)
    module, seen = network.to_torch(), []
    module.layer2.pattern.register_forward_hook(lambda part, inputs, output: seen.append(output))
    module(torch.from_numpy(x))
    expected = network.trial.model.attention(network.parameters, x).weights[1]
    np.testing.assert_allclose(seen[0].detach().numpy(), expected, atol=1e-6)


def test_a_model_that_tensors_cannot_run_is_refused_with_the_reason():
    with pytest.raises(TrialError, match=r"a model must also run on tensors: model='foreign:2' \(\w+"):
        network_of(SIGNS, Foreign(degree=2)).to_torch()


def test_layers_of_pytorch_become_a_network_that_can_be_read_out_and_certified():
    module = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
    with torch.no_grad():
        module[0].weight.zero_()
        module[0].bias.copy_(torch.tensor([0.0, 0.0, -1.0, -1.0]))
        module[0].weight[:, 2:4] = torch.tensor([[1.0, 1.0], [-1.0, -1.0], [1.0, 1.0], [-1.0, -1.0]])
        module[2].weight[:], module[2].bias[:] = torch.tensor([1.0, 1.0, 0.0, 0.0]), -1.0
    network = el.from_torch(module, trial_of(SIGNS, el.MLP(width=4)))
    x, _ = network.examples(9)
    np.testing.assert_array_equal(network(x), module(torch.from_numpy(x)).detach().numpy()[:, 0])
    assert el.read_out(network).support == (2, 3)
    assert el.certify(network, support=(2, 3)).verdict == "proved"
    assert module.training


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        (
            [torch.nn.Linear(8, 4), torch.nn.Linear(4, 2)],
            "the sizes of a module's parameters must equal the model's",
        ),
        ([torch.nn.Linear(8, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1)], "a module must compute the function of the"),
        (
            [torch.nn.Flatten(0), torch.nn.Linear(8, 4), torch.nn.Linear(4, 1)],
            "a module must take a batch of the task's",
        ),
    ],
    ids=["sizes", "function", "inputs"],
)
def test_a_module_of_another_function_is_refused(layers, message):
    with pytest.raises(TrialError, match=message):
        el.from_torch(torch.nn.Sequential(*layers), trial_of(SIGNS, el.MLP(width=4)))
