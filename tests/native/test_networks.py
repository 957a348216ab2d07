"""What holds of every network: how steps are grouped, threads, means and divergence."""

import threading

import native_reference as reference
import numpy as np
import pytest
import test_bits
import test_native_attention
import test_pairs


class Signs:
    """Networks on signs, whose examples are drawn natively."""

    problem, steps = reference.Problem(n=50, width=100), 480

    def network(self, native):
        return self.problem.network(native)

    def advance(self, network, places, factors):
        return network.advance(factors[places])

    def parameters(self, network):
        found = network.parameters()
        return list(found) if isinstance(found, tuple) else [found]


class Pairs(Signs):
    problem, steps = test_pairs.Problem().of(23, 40), 24


class Attention(Signs):
    """Networks that are handed their examples."""

    steps = 12

    def __init__(self, optimiser):
        self.optimiser = optimiser
        self.problem = test_native_attention.Problem(optimiser=optimiser, length=10, batch_size=40)
        self.batches = self.problem.batches(self.steps)

    def network(self, native):
        return self.problem.network(native, rate=0.01)

    def advance(self, network, places, factors):
        return network.advance(*(array[places] for array in self.batches), factors[places])


class Bits(Attention):
    def __init__(self, optimiser):
        self.optimiser, self.problem = optimiser, test_bits.Problem(batch_size=40)
        self.examples, self.index = self.problem.examples(), self.problem.index(self.steps)

    def network(self, native):
        return self.problem.network(native, rate=0.1, optimiser=self.optimiser)

    def advance(self, network, places, factors):
        return network.advance(*self.examples, self.index[places], factors[places])


KINDS = {
    "signs": Signs(),
    "pairs": Pairs(),
    **{f"attention, {optimiser}": Attention(optimiser) for optimiser in ("sgd", "adam")},
    **{f"bits, {optimiser}": Bits(optimiser) for optimiser in ("sgd", "adam")},
}
every_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def assert_equal(one, other):
    for left, right in zip(one, other, strict=True):
        np.testing.assert_array_equal(left, right)


@every_kind
def test_results_depend_neither_on_how_steps_are_grouped_nor_on_threads(native, kind):
    factors = np.linspace(1, 0.1, kind.steps, dtype=np.float32)
    crowd = [kind.network(native) for _ in range(5)]

    def advance(network, cuts):
        for places in np.split(np.arange(kind.steps), cuts):
            assert kind.advance(network, places, factors) == len(places)

    threads = [
        threading.Thread(target=advance, args=(network, range(0, kind.steps, 2 + i))) for i, network in enumerate(crowd)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for network in crowd:
        assert network.step == kind.steps
        assert_equal(kind.parameters(network), kind.parameters(crowd[0]))


@every_kind
def test_loss_and_error_are_means_over_the_last_advance(native, kind):
    factors, places = np.ones(kind.steps, np.float32), np.arange(kind.steps)
    network, single = kind.network(native), kind.network(native)
    assert np.isnan(network.loss)
    for each in (network, single):
        kind.advance(each, places[:4], factors)
    kind.advance(network, places[4:], factors)
    values = []
    for place in places[4:]:
        kind.advance(single, places[place : place + 1], factors)
        values.append((single.loss, single.error))
    np.testing.assert_allclose((network.loss, network.error), np.mean(values, axis=0), rtol=1e-6)
    kind.advance(network, places[:0], factors)
    assert np.isnan(network.loss)
    assert np.isnan(network.error)


@pytest.mark.parametrize("kind", list(KINDS.values())[1:], ids=list(KINDS)[1:])
def test_divergence_is_found_at_its_step_and_leaves_the_parameters_as_they_were(native, kind):
    factors, places = np.ones(kind.steps, np.float32), np.arange(kind.steps)
    factors[3] = np.float32(1e37)
    network, before = kind.network(native), kind.network(native)
    assert network.diverged_at == -1
    assert kind.advance(network, places, factors) == 4
    assert network.diverged_at == network.step == 4
    assert np.isfinite(network.loss)
    kind.advance(before, places[:4], factors)
    assert_equal(kind.parameters(network), kind.parameters(before))
    assert kind.advance(network, places, factors) == 0
    assert network.step == 4
