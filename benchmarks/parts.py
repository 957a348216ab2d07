"""One training step with each activation and each optimiser: the fused engine, the JAX engine and plain PyTorch.

The fused engine trains one network on one core, the JAX engine ten networks together on all cores, and PyTorch one
network in a plain loop with one thread. All train the same trials from the start; see ``steps`` for the method.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import median
from typing import Any

import torch
from torch.nn import functional

import elegans as el
from benchmarks import peers
from benchmarks.measure import in_turns, ratios, seconds, short
from benchmarks.record import Result, Target, at_most
from elegans.training.engines import ENGINES, ChunkRequest

WIDTHS = (10, 100, 1000, 10_000)
JUDGED = (100, 1000)
LIMIT = 1.6
"""The slowest step that an activation may have at the judged widths, in steps of a ReLU."""
TOGETHER = 10
FUSED, JAX, TORCH, HINGE = "fused", "jax", "PyTorch", "fused, hinge loss"


class Gated(el.Activation):
    """z tanh(z): an activation that elegans knows only from this file."""

    def value(self, z: Any) -> Any:
        """Return the function."""
        return z * z.__array_namespace__().tanh(z)

    def derivative(self, z: Any) -> Any:
        """Return its derivative."""
        tanh = z.__array_namespace__().tanh(z)
        return tanh + z * (1 - tanh**2)


ACTIVATIONS: Mapping[str, tuple[Any, Callable[[torch.Tensor], torch.Tensor]]] = {
    "relu": ("relu", torch.relu),
    "leaky-relu": ("leaky-relu", functional.leaky_relu),
    "elu": ("elu", functional.elu),
    "tanh": ("tanh", torch.tanh),
    "sigmoid": ("sigmoid", torch.sigmoid),
    "silu": ("silu", functional.silu),
    "softplus": ("softplus", functional.softplus),
    "gelu": ("gelu", functional.gelu),
    "gelu:tanh": ("gelu:tanh", partial(functional.gelu, approximate="tanh")),
    "sine": ("sine", torch.sin),
    "custom, z tanh(z)": (Gated(), lambda z: z * torch.tanh(z)),
}
SGD, ADAM = torch.optim.SGD, torch.optim.AdamW
OPTIMISERS: Mapping[str, tuple[dict[str, Any], Callable[..., torch.optim.Optimizer]]] = {
    "SGD": ({"kind": "sgd"}, SGD),
    "SGD, clipped": ({"kind": "sgd", "clip": 1.0}, SGD),
    "SGD, momentum": ({"kind": "sgd", "momentum": 0.9}, partial(SGD, momentum=0.9)),
    "SGD, Nesterov's momentum": (
        {"kind": "sgd", "momentum": 0.9, "nesterov": True},
        partial(SGD, momentum=0.9, nesterov=True),
    ),
    "AdamW": ({"kind": "adamw"}, ADAM),
    "AdamW, warm-up and cosine": (
        {"kind": "adamw", "schedule": {"kind": "warmup", "steps": 100, "then": "cosine:1000000"}},
        ADAM,
    ),
}


class Loop(peers.PlainLoop):
    """A tutorial's loop with an activation, a loss, an optimiser and a clip."""

    def __init__(
        self,
        trial: el.Trial,
        activation: Callable[[torch.Tensor], torch.Tensor],
        optimiser: Callable[..., torch.optim.Optimizer],
    ) -> None:
        """Prepare the network and its data."""
        training: Any = trial.training
        _, self.x, self.y = peers.material(trial)
        self.batch_size, self.clip, self.activation = training.batch_size, training.clip, activation
        self.hinge = training.loss.kind == "hinge"
        self.network = peers.network_of(trial)
        rates = {"lr": training.learning_rate, "weight_decay": training.weight_decay}
        self.optimiser = optimiser(self.network.parameters(), **rates)

    def loss(self, step: int) -> torch.Tensor:
        """Return the loss of a random minibatch."""
        index = torch.randint(len(self.x), (self.batch_size,))
        hidden, _, output = self.network
        margin = self.y[index] * output(self.activation(hidden(self.x[index]))).squeeze(-1)
        return torch.relu(1 - margin).mean() if self.hinge else functional.softplus(-margin).mean()

    def advance(self, steps: int) -> None:
        """Take steps."""
        for step in range(steps):
            self.optimiser.zero_grad()
            self.loss(step).backward()
            if self.clip is not None:
                torch.nn.utils.clip_grad_norm_(self.network.parameters(), self.clip)
            self.optimiser.step()


def trial_of(width: int, activation: Any, loss: str, seed: int = 0, **training: Any) -> el.Trial:
    """Return the trial that all contenders train; its learning rate is small, so that none diverges."""
    settings = {"kind": "sgd", "learning_rate": 0.001, "weight_decay": 0.01, "steps": 10**6, "loss": loss, **training}
    return el.Trial(
        task=el.SparseParity(n=50, k=3),
        regime=el.Sample(1000),
        model=el.MLP(width=width, activation=activation),
        training=settings,
        seed=seed,
    )


def run(*, quick: bool) -> Result:
    """Measure every part at every width, at each width in turns."""
    repetitions, budget = (3, 0.03) if quick else (7, 0.1)
    torch.set_flush_denormal(True)
    found: dict[str, dict[int, dict[str, list[float]]]] = {}
    with peers.torch_threads(1):
        for width in WIDTHS:
            contenders = _contenders(width, budget)
            for key, figures in in_turns(contenders, repetitions).items():
                name, contender = key.split(" | ")
                found.setdefault(name, {}).setdefault(width, {})[contender] = figures
            print(f"  width {width} measured", flush=True)
    return Result(
        settings={"widths": WIDTHS, "repetitions": repetitions, "networks of jax": TOGETHER},
        repetitions={name: {"milliseconds_per_1000_steps": by_width} for name, by_width in found.items()},
        summary=[
            *(_row(found, name, "relu", "logistic loss, SGD, ") for name in ACTIVATIONS),
            *(_row(found, name, "SGD", "hinge loss, ReLU, ") for name in OPTIMISERS),
        ],
        targets=[_target(found, width, column) for column in (FUSED, HINGE) for width in JUDGED],
    )


def _contenders(width: int, budget: float) -> dict[str, Callable[[], float]]:
    """Return what measures each part, those that are compared most closely next to each other."""
    jax = ENGINES["jax"]
    parts: dict[str, tuple[el.Trial, Callable[[el.Trial], Loop]]] = {
        name: (trial_of(width, activation, "logistic"), partial(Loop, activation=function, optimiser=SGD))
        for name, (activation, function) in ACTIVATIONS.items()
    }
    for name, (training, optimiser) in OPTIMISERS.items():
        one = trial_of(width, "relu", "hinge", **training)
        parts[name] = one, partial(Loop, activation=torch.relu, optimiser=optimiser)
    contenders = {f"{name} | {FUSED}": _alone(one, budget) for name, (one, _) in parts.items()}
    for name, (activation, _) in ACTIVATIONS.items():
        contenders[f"{name} | {HINGE}"] = _alone(trial_of(width, activation, "hinge"), budget)
    for name, (one, loop) in parts.items():
        seeds = [one.with_seed(seed) for seed in range(TOGETHER)]
        contenders[f"{name} | {JAX}"] = _timed(
            partial(jax.init, seeds), lambda state, steps: jax.advance(state, ChunkRequest.of(steps)), budget, TOGETHER
        )
        contenders[f"{name} | {TORCH}"] = _timed(partial(loop, one), lambda made, steps: made.advance(steps), budget)
    return contenders


def _alone(one: el.Trial, budget: float) -> Callable[[], float]:
    engine = ENGINES["fused"]
    return _timed(
        lambda: engine.init([one]), lambda state, steps: engine.advance(state, ChunkRequest.of(steps)), budget
    )


def _timed(
    prepare: Callable[[], Any], advance: Callable[[Any, int], Any], budget: float, networks: int = 1
) -> Callable[[], float]:
    """Return a function that measures milliseconds for 1000 steps of one network, of fresh networks each time."""
    advance(prepare(), 5)
    made = prepare()
    steps = max(5, min(2000, round(budget / (seconds(lambda: advance(made, 10)) / 10))))

    def figure() -> float:
        fresh = prepare()
        return seconds(lambda: advance(fresh, steps)) / (steps * networks) * 1e6

    return figure


def _middles(
    found: Mapping[str, Any], name: str, ratio: Callable[[Mapping[str, list[float]], int], Sequence[float]]
) -> str:
    return ", ".join(short(median(ratio(found[name][width], width))) for width in WIDTHS)


def _row(found: Mapping[str, Any], name: str, base: str, what: str) -> dict[str, str]:
    return {
        "part": what + name,
        "fused, ms": _middles(found, name, lambda own, _: own[FUSED]),
        "/ the first": _middles(found, name, lambda own, width: ratios(own[FUSED], found[base][width][FUSED])),
        "jax / fused": _middles(found, name, lambda own, _: ratios(own[JAX], own[FUSED])),
        "PyTorch / fused": _middles(found, name, lambda own, _: ratios(own[TORCH], own[FUSED])),
    }


def _target(found: Mapping[str, Any], width: int, column: str) -> Target:
    """Return the target of the slowest activation."""
    slowest = {name: median(ratios(found[name][width][column], found["relu"][width][column])) for name in ACTIVATIONS}
    name = max(slowest, key=lambda name: slowest[name])
    loss = "hinge" if column == HINGE else "logistic"
    return at_most(f"{name} / relu, {loss} loss, width {width}", slowest[name], LIMIT, "x")
