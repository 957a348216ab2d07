"""The same trials in PyTorch: a plain loop over one network, and ``torch.func.vmap`` over many."""

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np
import torch
from torch.func import functional_call, grad, stack_module_state, vmap

import elegans as el
from elegans.tasks import Sample

Material = tuple[dict[str, torch.Tensor], torch.Tensor, torch.Tensor]
_drawn: dict[str, Material] = {}


def material(trial: el.Trial) -> Material:
    """Return a trial's initial parameters by PyTorch's names, and its sample: x (size, n), y (size,)."""
    if trial.identity not in _drawn:
        _drawn[trial.identity] = _draw(trial)
    return _drawn[trial.identity]


def _draw(trial: el.Trial) -> Material:
    assert isinstance(trial.regime, Sample)
    initial = trial.model.initialise(trial.key("init"), trial.task)
    index = np.arange(trial.regime.size, dtype=np.uint32)
    x, y = trial.task.examples(trial.task.draw(trial.key("task")), trial.key("sample"), index)
    parameters = {
        "0.weight": initial["hidden"]["weight"],
        "0.bias": initial["hidden"]["bias"],
        "2.weight": initial["output"]["weight"][None],
        "2.bias": initial["output"]["bias"][None],
    }
    tensors = {name: torch.from_numpy(array) for name, array in parameters.items()}
    return tensors, torch.from_numpy(x), torch.from_numpy(y)


def network_of(trial: el.Trial) -> torch.nn.Module:
    """Return the trial's network, with its initial parameters."""
    width = trial.model.width  # type: ignore[attr-defined]
    layers = torch.nn.Linear(trial.task.input_size, width), torch.nn.ReLU(), torch.nn.Linear(width, 1)
    network = torch.nn.Sequential(*layers)
    network.load_state_dict(material(trial)[0])
    return network


def hinge(output: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    """Return the mean hinge loss."""
    return torch.relu(1 - label * output).mean()


@contextlib.contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Make PyTorch compute on a number of threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class Loop(ABC):
    """The loop that a PyTorch user would write: autograd and an optimiser."""

    optimiser: torch.optim.Optimizer

    @abstractmethod
    def loss(self, step: int) -> torch.Tensor:
        """Return the loss of the minibatch of a step."""

    def advance(self, steps: int) -> None:
        """Take steps."""
        for step in range(steps):
            self.optimiser.zero_grad()
            self.loss(step).backward()
            self.optimiser.step()


class PlainLoop(Loop):
    """The loop of a PyTorch tutorial: nn.Module, torch.optim.SGD, one network."""

    def __init__(self, trial: el.Trial) -> None:
        """Prepare the network and its data."""
        training = trial.training
        assert isinstance(training, el.SGD)
        _, self.x, self.y = material(trial)
        self.batch_size = training.batch_size
        self.network = network_of(trial)
        self.optimiser = torch.optim.SGD(
            self.network.parameters(), lr=training.learning_rate, weight_decay=training.weight_decay
        )

    def loss(self, step: int) -> torch.Tensor:
        """Return the hinge loss of a random minibatch."""
        index = torch.randint(len(self.x), (self.batch_size,))
        return hinge(self.network(self.x[index]).squeeze(-1), self.y[index])


class VmappedLoop:
    """Many networks of one shape at once: functional_call, stack_module_state, vmap of grad."""

    def __init__(self, trials: list[el.Trial]) -> None:
        """Stack the networks and their data."""
        training = trials[0].training
        assert isinstance(training, el.SGD)
        self.batch_size, self.rate, self.decay = training.batch_size, training.learning_rate, training.weight_decay
        self.x = torch.stack([material(trial)[1] for trial in trials])
        self.y = torch.stack([material(trial)[2] for trial in trials])
        networks = [network_of(trial) for trial in trials]
        stacked, _ = stack_module_state(networks)  # type: ignore[arg-type]
        self.parameters = {name: array.detach() for name, array in stacked.items()}
        base = networks[0]

        def loss(parameters: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return hinge(functional_call(base, parameters, (x,)).squeeze(-1), y)

        self.gradients = vmap(grad(loss))
        self.rows = torch.arange(len(trials))[:, None]

    @torch.no_grad()
    def advance(self, steps: int) -> None:
        """Take steps of every network."""
        count, size = self.y.shape
        for _ in range(steps):
            index = torch.randint(size, (count, self.batch_size))
            gradients = self.gradients(self.parameters, self.x[self.rows, index], self.y[self.rows, index])
            for name, parameter in self.parameters.items():
                parameter.mul_(1 - self.rate * self.decay).sub_(gradients[name], alpha=self.rate)


def plain_seconds(trial: el.Trial, steps: int) -> float:
    """Return the wall time of a plain loop with one thread; to be run in its own process."""
    from benchmarks.measure import seconds

    torch.set_num_threads(1)
    loop = PlainLoop(trial)
    return seconds(lambda: loop.advance(steps))
