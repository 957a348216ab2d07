"""The lab's models as PyTorch modules, part by part: hooks on a part see what it computes.

A module's parameters have the names and shapes of the model's. Each layer is a submodule that is called once in a
forward pass; so are activations (``activation``) and the attention after the softmax (``pattern``).
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from elegans.models import (
    MLP,
    Activation,
    AttentionOnly,
    BooleanTransformer,
    DeepMLP,
    DisjointPolyNet,
    GatedLinear,
    LinearPredictor,
    Model,
    PairTransformer,
    ParityTransformer,
    PolyNet,
    RandomFourier,
    RandomReLU,
)
from elegans.models.attention import NORM_EPSILON

Arrays = Mapping[str, Any]


def module_of(model: Model, parameters: Arrays) -> Any:
    """Return a model with these parameters as a module.

    If a model computes its outputs in its own way, such as a user-defined model, its ``apply`` runs on tensors.
    """
    for family, make in MODULES.items():
        if isinstance(model, family) and type(model).apply is family.apply:
            return make(model, parameters)
    return Applied(model, parameters)


class Part(nn.Module):
    """A module with arrays as its parameters, and nested mappings of arrays as submodules.

    Args:
        arrays: arrays and mappings by name.
        **parts: the submodules for mappings of these names; ``Part`` by default.
    """

    def __init__(self, arrays: Arrays, **parts: Callable[[Arrays], nn.Module]) -> None:
        super().__init__()
        for name, value in arrays.items():
            if isinstance(value, Mapping):
                self.add_module(name, parts.get(name, Part)(value))
            else:
                self.register_parameter(name, nn.Parameter(torch.from_numpy(np.array(value))))

    def nested(self) -> dict[str, Any]:
        """Return the parameters as the model nests them."""
        inner = {name: part.nested() for name, part in self.named_children() if isinstance(part, Part)}
        return {**dict(self.named_parameters(recurse=False)), **inner}


class Applied(Part):
    """A model whose ``apply`` runs on tensors unchanged."""

    def __init__(self, model: Model, parameters: Arrays) -> None:
        super().__init__(parameters)
        self.model = model

    def forward(self, x: Tensor) -> Any:
        return self.model.apply(self.nested(), x)


class Affine(Part):
    """x W^T + b, with W (outputs, inputs) or, for a single output without an axis, (inputs,)."""

    weight: Tensor

    def forward(self, x: Tensor) -> Tensor:
        product = x @ (self.weight if self.weight.ndim == 1 else self.weight.T)
        return product + self.bias if hasattr(self, "bias") else product


class Elementwise(nn.Module):
    """An activation, run on tensors if it supports them, and otherwise on NumPy arrays with its derivative."""

    def __init__(self, activation: Activation) -> None:
        super().__init__()
        self.activation = activation
        try:
            self.runs_on_tensors = isinstance(activation.value(torch.zeros(1)), Tensor)
        except Exception:  # whatever an activation raises that knows no tensors
            self.runs_on_tensors = False

    def extra_repr(self) -> str:
        return self.activation.label()

    def forward(self, z: Tensor) -> Any:
        return self.activation.value(z) if self.runs_on_tensors else _ByNumpy.apply(z, self.activation)


class _ByNumpy(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, z: Tensor, activation: Activation) -> Tensor:
        array = z.detach().cpu().numpy()
        context.slope = _tensor(activation.derivative(array), z)
        return _tensor(activation.value(array), z)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Any:
        return gradient * context.slope, None


def _tensor(array: Any, like: Tensor) -> Tensor:
    return torch.from_numpy(np.array(array)).to(like)


class TwoLayers(Part):
    """An ``MLP``."""

    def __init__(self, model: MLP, parameters: Arrays) -> None:
        super().__init__(parameters, hidden=Affine, output=Affine)
        self.activation, self.mean_of = Elementwise(model.activation), model.gradient_scale

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.activation(self.hidden(x))
        total: Tensor = self.output(hidden) if hasattr(self, "output") else hidden.sum(1)
        return total / self.mean_of


class Deep(Part):
    """A ``DeepMLP``: one activation for each hidden layer, ``activation``, ``activation2``, …."""

    def __init__(self, model: DeepMLP, parameters: Arrays) -> None:
        super().__init__(parameters, **dict.fromkeys(parameters, Affine))
        self.layers = [(name, name.replace("hidden", "activation")) for name in model.layers]
        for _, name in self.layers:
            self.add_module(name, Elementwise(model.activation))

    def forward(self, x: Tensor) -> Any:
        for layer, activation in self.layers:
            x = getattr(self, activation)(getattr(self, layer)(x))
        return self.output(x)


class Product(Part):
    """A ``PolyNet``."""

    def __init__(self, model: PolyNet, parameters: Arrays) -> None:
        super().__init__(parameters, hidden=Affine)

    def forward(self, x: Tensor) -> Any:
        return self.hidden(x).prod(1)


class Blocks(Part):
    """A linear form of each block of inputs."""

    weight: Tensor

    def forward(self, x: Tensor) -> Tensor:
        return (x.reshape(len(x), *self.weight.shape) * self.weight).sum(2)


class DisjointProduct(Part):
    """A ``DisjointPolyNet``."""

    def __init__(self, model: DisjointPolyNet, parameters: Arrays) -> None:
        super().__init__(parameters, hidden=Blocks)

    def forward(self, x: Tensor) -> Any:
        return self.hidden(x).prod(1)


class Predictor(Part):
    """A linear predictor on its inputs or on features; features that are drawn once are not trained."""

    def __init__(self, model: LinearPredictor, parameters: Arrays) -> None:
        super().__init__(parameters, **dict.fromkeys(parameters, Affine))
        self.kind = model.kind
        fixed = {"random-relu": "hidden", "random-fourier": "hidden", "gated-linear": "gates"}.get(model.kind)
        if fixed:
            getattr(self, fixed).requires_grad_(False)

    def forward(self, x: Tensor) -> Any:
        if self.kind == "random-relu":
            x = torch.relu(self.hidden(x))
        elif self.kind == "random-fourier":
            z = self.hidden(x)
            x = torch.cos(z) * (2 / z.shape[1]) ** 0.5
        elif self.kind == "gated-linear":
            x = self.hidden(x) * (self.gates(x) > 0)
        return self.output(x)


class Norm(Part):
    """Normalisation of each row by its mean and variance; none if there is no scale."""

    def forward(self, z: Tensor) -> Tensor:
        if not hasattr(self, "scale"):
            return z
        centred = z - z.mean(-1, keepdim=True)
        variance = centred.square().mean(-1, keepdim=True)
        normed: Tensor = centred / (variance + NORM_EPSILON) ** 0.5 * self.scale + self.shift
        return normed


class Tokens(Part):
    """The rows of tokens, and of their positions where these are absolute."""

    token: Tensor

    def forward(self, x: Tensor) -> Tensor:
        z = self.token[x.long()]
        return z + self.position[: x.shape[1]] if hasattr(self, "position") else z


class CausalAttention(Norm):
    """A layer of an ``AttentionOnly``: what it adds to the residual stream."""

    query: Tensor
    key: Tensor
    value: Tensor

    def __init__(self, arrays: Arrays, heads: int) -> None:
        super().__init__(arrays)
        self.heads, self.pattern = heads, nn.Identity()

    def forward(self, z: Tensor) -> Tensor:
        inner, length = super().forward(z), z.shape[1]
        query = self._by_head(inner @ self.query) / (z.shape[2] // self.heads) ** 0.5
        logits = query @ self._by_head(inner @ self.key).swapaxes(2, 3)
        place = torch.arange(length, device=z.device)
        distance = place[:, None] - place[None, :]
        if hasattr(self, "relative"):
            by_distance = query @ self._by_head(self.relative[None, :length]).swapaxes(2, 3)
            logits = logits + by_distance.gather(3, distance.clamp(min=0).expand(logits.shape))
        weights = self.pattern(logits.masked_fill(distance < 0, -torch.inf).softmax(-1))
        attended = (weights @ self._by_head(inner @ self.value)).swapaxes(1, 2).reshape(z.shape)
        return attended @ self.merge if hasattr(self, "merge") else attended

    def _by_head(self, rows: Tensor) -> Tensor:
        count, length, width = rows.shape
        return rows.reshape(count, length, self.heads, width // self.heads).swapaxes(1, 2)


class ResidualMLP(Norm):
    """The MLP after a layer of attention: what it adds to the residual stream."""

    def __init__(self, arrays: Arrays) -> None:
        super().__init__(arrays)
        self.activation = nn.GELU("tanh")

    def forward(self, z: Tensor) -> Any:
        return self.activation(super().forward(z) @ self.hidden + self.hidden_bias) @ self.residual + self.residual_bias


class Unembedding(Norm):
    """The logits of the residual stream."""

    weight: Tensor

    def forward(self, z: Tensor) -> Tensor:
        return super().forward(z) @ self.weight


class CausalTransformer(Part):
    """An ``AttentionOnly``."""

    def __init__(self, model: AttentionOnly, parameters: Arrays) -> None:
        heads = dict(enumerate(model.layer_heads, 1))
        layers = {
            f"layer{layer}": lambda arrays, count=count: CausalAttention(arrays, count)
            for layer, count in heads.items()
        }
        mlps = dict.fromkeys([f"mlp{layer}" for layer in heads], ResidualMLP)
        super().__init__(parameters, embedding=Tokens, **layers, **mlps, output=Unembedding)
        self.blocks = [name for layer in heads for name in (f"layer{layer}", f"mlp{layer}") if name in parameters]

    def forward(self, x: Tensor) -> Any:
        z = self.embedding(x)
        for name in self.blocks:
            z = z + getattr(self, name)(z)
        return self.output(z)


class SingleQuery(Part):
    """The attention of one token to a number of rows: the merged heads, shape (count, width).

    Args:
        arrays: ``query``, ``key``, ``value`` (heads, width, size), ``output`` (heads, size, width), biases.
        scale: the factor of products of queries and keys.
    """

    output: Tensor

    def __init__(self, arrays: Arrays, scale: float) -> None:
        super().__init__(arrays)
        self.scale, self.pattern = scale, nn.Identity()

    def forward(self, rows: Tensor) -> Tensor:
        """Return the outputs for rows (count, positions, width); the last row is the query."""
        query, key, value = (
            self._project("query", rows[:, -1:])[:, 0],
            self._project("key", rows),
            self._project("value", rows),
        )
        weights = self.pattern((torch.einsum("bha,bnha->bhn", query, key) * self.scale).softmax(-1))
        merged = torch.einsum("bhn,bnha,had->bd", weights, value, self.output)
        return merged + self.output_bias if hasattr(self, "output_bias") else merged

    def _project(self, name: str, rows: Tensor) -> Tensor:
        projected = torch.einsum("bnd,hda->bnha", rows, getattr(self, name))
        return projected + getattr(self, f"{name}_bias") if hasattr(self, f"{name}_bias") else projected


class SignTokens(Part):
    """The rows of a ``ParityTransformer``: of the signs, and last of the class token."""

    sign: Tensor

    def forward(self, x: Tensor) -> Tensor:
        rows = self.sign[(x > 0).long()] + self.position
        return torch.cat([rows, getattr(self, "class").expand(len(x), 1, -1)], 1)


class PairTokens(Part):
    """The rows of a ``PairTransformer``: of a, b and "="."""

    number: Tensor

    def forward(self, x: Tensor) -> Tensor:
        a, b = (one_hot @ self.number for one_hot in x.chunk(2, 1))
        return torch.stack([a, b, self.equals.expand(len(x), -1)], 1) + self.position


class OneBlock(Part):
    """A ``ParityTransformer`` or ``PairTransformer``: attention, an MLP and the output, at the last row."""

    def __init__(self, model: ParityTransformer | PairTransformer, parameters: Arrays) -> None:
        scale = model.head_size**-0.5
        affine = dict.fromkeys(["hidden", "residual", "output"], Affine)
        embedding = PairTokens if isinstance(model, PairTransformer) else SignTokens
        super().__init__(parameters, embedding=embedding, attention=lambda arrays: SingleQuery(arrays, scale), **affine)
        self.activation = Elementwise(model.activation) if isinstance(model, PairTransformer) else nn.GELU()

    def forward(self, x: Tensor) -> Any:
        rows = self.embedding(x)
        z = rows[:, -1] + self.attention(rows)
        return self.output(z + self.residual(self.activation(self.hidden(z))))


class BitTokens(Part):
    """The rows of a ``BooleanTransformer``: of the bits, and last of the class token."""

    position: Tensor

    def __init__(self, arrays: Arrays, is_trained: bool) -> None:
        super().__init__(arrays)
        self.is_trained = is_trained
        self.position.requires_grad_(is_trained)

    def forward(self, x: Tensor) -> Tensor:
        bits, class_row = (x > 0).long(), getattr(self, "class")
        position = self.position[:-1] if self.is_trained else self.position
        rows = position + self.token[bits] if hasattr(self, "token") else position * bits[:, :, None]
        last = class_row + self.position[-1] if self.is_trained else class_row
        return torch.cat([rows, last.expand(len(x), 1, -1)], 1)


class Bits(Part):
    """A ``BooleanTransformer`` without dropout: one activation for each hidden layer, ``activation1``, ….

    In the plain form, ``output`` gives the output of ``apply``; in the prenorm form it gives two logits.
    """

    def __init__(self, model: BooleanTransformer, parameters: Arrays) -> None:
        layers = [f"hidden{number}" for number in range(1, len(model.sizes) + 1)]
        parts: dict[str, Callable[[Arrays], nn.Module]] = dict.fromkeys([*layers, "residual", "output"], Affine)
        parts |= dict.fromkeys(["norm1", "norm2", "norm3"], Norm)
        scale, is_trained = float(model.score_scale), model.encoding == "trained"
        parts["attention"] = lambda arrays: SingleQuery(arrays, scale)
        parts["embedding"] = lambda arrays: BitTokens(arrays, is_trained)
        super().__init__(parameters, **parts)
        self.is_plain, self.layers = model.form == "plain", layers
        for layer in layers:
            self.add_module(layer.replace("hidden", "activation"), nn.ReLU() if self.is_plain else nn.GELU())

    def forward(self, x: Tensor) -> Any:
        rows = self.embedding(x)
        if self.is_plain:
            return self.output(self._inner(self.attention(rows)))
        z = rows[:, -1] + self.attention(self.norm1(rows))
        logits = self.output(self.norm3(z + self.residual(self._inner(self.norm2(z)))))
        return logits[:, 1] - logits[:, 0]

    def _inner(self, z: Tensor) -> Tensor:
        for layer in self.layers:
            z = getattr(self, layer.replace("hidden", "activation"))(getattr(self, layer)(z))
        return z


MODULES: dict[type[Model], Any] = {
    MLP: TwoLayers,
    DeepMLP: Deep,
    PolyNet: Product,
    DisjointPolyNet: DisjointProduct,
    LinearPredictor: Predictor,
    RandomReLU: Predictor,
    RandomFourier: Predictor,
    GatedLinear: Predictor,
    AttentionOnly: CausalTransformer,
    ParityTransformer: OneBlock,
    PairTransformer: OneBlock,
    BooleanTransformer: Bits,
}
