"""How close a network is to the networks of largest margin: its normalised margin, its logits, and its neurons.

Networks are homogeneous, with one hidden layer and one output per class: on one-hot pairs (addition mod p,
composition in a finite group) f(a, b)[c] = sum_i sigma(u_i(a) + v_i(b)) w_i(c), sigma the square or relu, and on signs
f(x) = sum_i (u_i . x)^d w_i with two outputs. Everything is evaluated on the whole population, in float64.

Training leaves some neurons inactive. Neurons with a norm below a share of the largest are *negligible* and left out of
counts and summaries; each of these exists a second time, with a name that ends in ``.all``, for all neurons. A neuron
that is 0 is in neither. At high degrees, useless neurons shrink slowly and stay above that share for long: names that
end in ``.weighted`` are means over neurons weighted by ||omega||^nu.

Source: thesis, chapter 7; Morwani, Edelman, Oncescu, Zhao and Kakade, "Feature emergence via margin maximization: case
studies in algebraic tasks" (ICLR 2024).
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import numpy as np
from jaxtyping import Bool, Float
from pydantic import Field

from elegans.models import MLP, Model, ReLU
from elegans.probes.base import Probe, Snapshot
from elegans.studies.feature_margins.families import NAMED, Labels, activation_degree, family_of, largest_margin
from elegans.studies.feature_margins.theory.certificate import NEGLIGIBLE
from elegans.studies.feature_margins.theory.diagnostics import (
    MainHarmonics,
    amplitude_spread,
    cyclic_main_frequencies,
    cyclic_powers,
    group_main_irreps,
    margin_decomposition,
    mass_shares,
    parity_neurons,
    phase_residuals,
    rank_one_residuals,
    vector_alignment,
)
from elegans.studies.feature_margins.theory.game import margin_game
from elegans.studies.feature_margins.theory.harmonics import group_powers
from elegans.studies.feature_margins.theory.weights import (
    HomogeneousWeights,
    PairWeights,
    ParityWeights,
    pointwise_margins,
)
from elegans.tasks import GroupComposition, ModularAddition, SparseParity, Task

Exponent = Annotated[float, Field(ge=1, allow_inf_nan=False)]
Found = dict[str, float | np.ndarray]


class MarginProbe(Probe):
    """A measure of a homogeneous network on the whole population of one-hot pairs or signs.

    Every quantity is nan for a network that is 0 or has non-finite weights.

    Args:
        every: how many steps lie between two measurements.
    """

    def check(self, task: Task, model: Model) -> None:
        """Refuse tasks, populations and networks that the theory of margins does not cover."""
        family = family_of(task)
        if family is None:
            raise ValueError(f"{self.kind} needs {NAMED}: task={task.kind!r}")
        if family.size(task) > family.largest:
            rule = "enumerates the population, so its elements or signs must be at most"
            raise ValueError(f"{self.kind} {rule} {family.largest}: {family.size(task)}")
        rule = f"{self.kind} needs a two-layer mlp without biases"
        if not isinstance(model, MLP) or not model.readout or model.hidden_bias or model.output_bias:
            raise ValueError(f"{rule}: model={model.kind!r}")
        if model.scaling != "standard" or model.outputs(task) != (task.classes or 2):
            named = f"scaling={model.scaling!r}, outputs={model.outputs(task)}, classes={task.classes or 2}"
            raise ValueError(f"{rule}, of standard scaling, with an output for each class: {named}")
        on_pairs, degree = not isinstance(task, SparseParity), activation_degree(model)
        if not (degree == 2 or (on_pairs and isinstance(model.activation, ReLU)) or (degree and not on_pairs)):
            wanted = "power:2 or relu" if on_pairs else "a power"
            raise ValueError(f"{rule} whose activation is {wanted} on {task.kind}: {model.activation.label()!r}")

    def measure(self, snapshot: Snapshot) -> Found:
        """Return the result of ``evaluate``, for a network whose weights are finite and not all 0."""
        layers = {name: np.asarray(layer["weight"], float) for name, layer in snapshot.parameters.items()}
        usable = all(np.isfinite(weight).all() for weight in layers.values()) and any(map(np.any, layers.values()))
        # for unusable networks, quantities have the same names and shapes
        given = {name: {"weight": weight if usable else np.ones(weight.shape)} for name, weight in layers.items()}
        family = family_of(snapshot.task)
        assert family is not None
        weights = family.weights(given, activation_degree(snapshot.model) or 1)
        quantities = self.evaluate(weights, snapshot)
        return quantities if usable else {name: math.nan * value for name, value in quantities.items()}

    @abstractmethod
    def evaluate(self, weights: HomogeneousWeights, snapshot: Snapshot) -> Found:
        """Return the named quantities of a network, as floating-point numbers or arrays."""


class NormalisedMargin(MarginProbe):
    """The smallest margin over the whole population, for weights of norm 1, and its share of the largest possible one.

    The margin of an example is f(x)[y] minus the largest other output; the normalised margin is the smallest of them
    over ||theta||^nu, with ||theta||_{a,b} = (sum over neurons of ||omega||_a^b)^(1/b), omega all weights of a neuron
    and nu the network's degree: 3 for squares, 2 for relu, d + 1 for powers z^d.

    Source: thesis, section 7.2, and Theorems 7.7 to 7.9 for the largest margin gamma*.

    Args:
        inner: a.
        outer: b; None for the degree nu.
    """

    inner: Exponent = 2.0
    outer: Exponent | None = None

    def evaluate(self, weights: HomogeneousWeights, snapshot: Snapshot) -> Found:
        """Return numbers.

        They are ``normalised``, ``margin`` (the smallest), ``norm`` (sum ``||omega||_a^b``), ``accuracy`` (the share of
        the population with a margin above 0) and ``spread`` (the largest margin minus the smallest); and where theory
        has gamma*, for squares on pairs and powers z^k on a k-sparse parity under L_{2,nu}, ``ratio`` (normalised over
        gamma*, 1 for a network of the largest margin).
        """
        degree = weights.degree
        outer = degree if self.outer is None else self.outer
        margins = pointwise_margins(weights, _labels(snapshot))
        assert isinstance(weights, PairWeights | ParityWeights)
        parts = (weights.u, weights.v, weights.w) if isinstance(weights, PairWeights) else (weights.u, weights.w)
        neurons = np.abs(np.concatenate(parts, axis=1))
        norm = float(((neurons**self.inner).sum(axis=1) ** (outer / self.inner)).sum())
        least = float(margins.min())
        normalised = least / norm ** (degree / outer)
        quantities: Found = {
            "normalised": normalised,
            "margin": least,
            "norm": norm,
            "accuracy": float((margins > 0).mean()),
            "spread": float(np.ptp(margins)),
        }
        gamma = snapshot.remember("largest margin", lambda: largest_margin(snapshot.task, snapshot.model))
        if gamma is not None and self.inner == 2 and outer == degree:
            quantities["ratio"] = normalised / gamma
        return quantities


class Decomposition(MarginProbe):
    """How close the logits are to a part that does not depend on the answer, plus gamma for the correct answer.

    Every network of the largest margin on addition mod p, on a parity or, where Theorem 7.9 holds, on a group has the
    logits F(a, b) + gamma 1[c = ab]; F and gamma are fitted by least squares, in closed form.

    Source: thesis, appendix D.6.3 and D.9.1.
    """

    def evaluate(self, weights: HomogeneousWeights, snapshot: Snapshot) -> Found:
        """Return ``gamma``, ``normalised`` and ``residual``.

        ``normalised`` is gamma at L_{2,nu} norm 1, gamma* at the largest margin; ``residual`` the square root of the
        share of the logits' variation over outputs that the fit leaves unexplained.
        """
        gamma, residual = margin_decomposition(weights.logits(), _labels(snapshot))
        return {"gamma": gamma, "normalised": gamma / weights.mass, "residual": residual}


class NeuronProbe(MarginProbe):
    """Measures of single neurons.

    Args:
        negligible: the share of the largest norm below which a neuron is left out, from 0 to below 1.
    """

    negligible: Annotated[float, Field(ge=0, lt=1)] = NEGLIGIBLE

    def chosen(self, weights: HomogeneousWeights) -> Iterator[tuple[str, Bool[np.ndarray, " neurons"]]]:
        """Yield the neurons over which a quantity is taken, with the suffix of its name: active neurons, then all."""
        yield "", weights.norms > self.negligible * weights.norms.max()
        yield ".all", weights.norms > 0

    def summary(self, weights: HomogeneousWeights, name: str, values: Any, **of: Callable[..., Any]) -> Found:
        """Return ``name.least``, … of one value per neuron: each function applied to the values that are not nan."""
        known = ~np.isnan(values)
        return {
            f"{name}.{how}{ending}": float(summarise(values[which & known])) if (which & known).any() else np.nan
            for ending, which in self.chosen(weights)
            for how, summarise in of.items()
        }

    def weighted(self, weights: HomogeneousWeights, **values: np.ndarray) -> Found:
        """Return ``name.weighted``, … of values per neuron: means weighted by ||omega||^nu, without nan."""
        mass = weights.norms**weights.degree
        return {
            f"{name}.weighted": float(np.average(column[known], weights=mass[known])) if mass[known].any() else np.nan
            for name, column in values.items()
            for known in [~np.isnan(column)]
        }


class HarmonicProbe(NeuronProbe):
    """Neurons of a network on pairs, grouped by the harmonic (frequency or irrep) that holds most of u."""

    def harmonics(
        self,
        weights: PairWeights,
        main: MainHarmonics,
        joint: Float[np.ndarray, " neurons"],
        shares: Float[np.ndarray, " harmonics"],
        first: int = 0,
    ) -> Found:
        """Return the quantities common to both kinds of harmonics.

        Args:
            weights: the network.
            main: the harmonic of each neuron and its share of the power of u.
            joint: the largest share of one harmonic in the joint power of u, v and w.
            shares: the theoretical shares of the mass, for ``first``, ``first`` + 1, ….
            first: the number of the first harmonic that a neuron may have.
        """
        places, count = main.place - first, len(shares)
        masses, amplitude = mass_shares(weights, places, count), amplitude_spread(weights)
        return {
            "power": main.share.astype(np.float32),
            "size": _sizes(weights),
            **{
                f"neurons{ending}": np.bincount(places[which], minlength=count).astype(float)
                for ending, which in self.chosen(weights)
            },
            "share": masses,
            "share.distance": float(np.abs(masses - shares).sum()) / 2,
            **self.summary(weights, "power", main.share, mean=np.mean, least=np.min),
            **self.summary(weights, "joint", joint, mean=np.mean, least=np.min),
            **self.summary(weights, "amplitude", amplitude, largest=np.max, rms=_rms),
            **self.weighted(weights, power=main.share, joint=joint, amplitude=amplitude),
        }


class FrequencyPower(HarmonicProbe):
    """Whether the neurons of a network that adds mod p are single frequencies, with phases that add up.

    A frequency and its negative count as one, so a cosine has power 1; the mean counts in the denominator.

    Source: Theorem 7.7, Figures 7.1, 7.4 and D.1.
    """

    def check(self, task: Task, model: Model) -> None:
        if not isinstance(task, ModularAddition):
            raise ValueError(f"{self.kind} needs addition mod p: task={task.label()!r}")
        super().check(task, model)

    def evaluate(self, weights: HomogeneousWeights, snapshot: Snapshot) -> Found:
        """Return arrays over neurons and over the frequencies 1, …, (p - 1)/2, and numbers.

        Over neurons: ``power`` (the largest normalised power of u), ``frequency`` (where it is) and ``size`` (the norm
        over the largest). Over frequencies: ``neurons`` (how many) and ``share`` (of sum ||omega||^nu, with all
        neurons). Numbers: ``share.distance`` (total variation from 2/(p - 1) each), ``power.mean`` and ``.least``,
        ``joint.mean`` and ``.least`` (of the largest share that one frequency has of u, v and w together);
        ``phase.largest`` and ``.rms`` (of |theta_u + theta_v - theta_w| in radians), and ``amplitude.largest`` and
        ``.rms`` (of 1 - min / max of ||u||, ||v|| and ||w||); and ``.weighted`` of each of the four. At the largest
        margin powers are 1 and the others 0.
        """
        assert isinstance(weights, PairWeights)
        main = cyclic_main_frequencies(weights.u)
        powers = np.sum([cyclic_powers(part) for part in (weights.u, weights.v, weights.w)], axis=0)
        count = weights.order // 2
        joint, phases = _ratio(powers[:, 1:].max(axis=1), powers.sum(axis=1)), np.abs(phase_residuals(weights))
        return {
            **self.harmonics(weights, main, joint, np.full(count, 1 / count), first=1),
            "frequency": main.place.astype(np.float32),
            **self.summary(weights, "phase", phases, largest=np.max, rms=_rms),
            **self.weighted(weights, phase=phases),
        }


class IrrepPower(HarmonicProbe):
    """Whether the neurons of a network that composes in a group are single irreps, of rank one with shared vectors.

    Let alpha, beta and gamma be the coefficients of u, v and w in the irrep R that holds most of u. At the largest
    margin they are x y^T, y z^T and x z^T up to scale.

    Source: Theorem 7.9, Figures 7.6, D.2 and D.3; rank one and shared vectors are derived here from Lemma D.13.
    """

    def check(self, task: Task, model: Model) -> None:
        if not isinstance(task, GroupComposition):
            raise ValueError(f"{self.kind} needs composition in a group: task={task.label()!r}")
        super().check(task, model)
        task.group.real_irreps()

    def evaluate(self, weights: HomogeneousWeights, snapshot: Snapshot) -> Found:
        """Return arrays over neurons and over irreps, the trivial one first, and numbers.

        Over neurons: ``power`` (the largest share that an irrep has of ||u||^2), ``irrep`` (its place) and ``size``
        (the norm over the largest). Over irreps: ``neurons`` (how many) and ``share`` (of sum ||omega||^nu, with all
        neurons). Numbers: ``share.distance`` (total variation from the shares of a network of the largest margin),
        ``power.mean`` and ``.least``, ``joint.mean`` and ``.least`` (of the largest share that one irrep has of
        u, v and w together); ``rank.largest`` and ``.rms`` (of the second over the first singular value of alpha, beta
        and gamma, whichever is largest), ``alignment.mean`` and ``.least`` (of tr(alpha beta gamma^T) over the product
        of their norms), and ``amplitude.largest`` and ``.rms`` (of 1 - min / max of ||u||, ||v|| and ||w||); and
        ``.weighted`` of each of the five. At the largest margin powers and alignments are 1 and the others 0.
        """
        assert isinstance(weights, PairWeights) and isinstance(snapshot.task, GroupComposition)
        group = snapshot.task.group
        powers = np.sum([group_powers(group, part) for part in (weights.u, weights.v, weights.w)], axis=0)
        shares = snapshot.remember("shares of irreps", lambda: margin_game(group).shares)
        main = group_main_irreps(group, weights.u)
        rank = rank_one_residuals(group, weights)
        alignment = vector_alignment(group, weights)
        return {
            **self.harmonics(weights, main, _ratio(powers.max(axis=1), powers.sum(axis=1)), shares),
            "irrep": main.place.astype(np.float32),
            **self.summary(weights, "rank", rank, largest=np.max, rms=_rms),
            **self.summary(weights, "alignment", alignment, mean=np.mean, least=np.min),
            **self.weighted(weights, rank=rank, alignment=alignment),
        }


class ParityNeurons(NeuronProbe):
    """Whether the neurons of a network of powers z^k on a k-sparse parity are sign vectors on its support.

    With 40 neurons on the (10, 4)-parity, eight have the largest norm after 30 000 steps and hold 99% of the mass, and
    the others still have 24 to 42% of that norm: here a neuron counts from one half on.

    Source: Theorem 7.8 and Figure 7.5.
    """

    negligible: Annotated[float, Field(ge=0, lt=1)] = 0.5

    def check(self, task: Task, model: Model) -> None:
        if not isinstance(task, SparseParity):
            raise ValueError(f"{self.kind} needs a sparse parity: task={task.label()!r}")
        super().check(task, model)
        degree = getattr(getattr(model, "activation", None), "degree", None)
        if degree != task.k:
            raise ValueError(f"{self.kind} needs powers z^k of a k-sparse parity: degree={degree}, k={task.k}")

    def evaluate(self, weights: HomogeneousWeights, snapshot: Snapshot) -> Found:
        """Return an array over neurons, and numbers.

        Over neurons: ``size`` (the norm over the largest). Numbers: ``neurons`` (how many), ``outside.largest`` and
        ``.rms`` (of the share of ||u||^2 off the support), ``magnitude.largest`` and ``.least`` (of |u_j| over ||w||, j
        in the support), ``alignment.mean`` and ``.least`` (of |cos| between w and (1, -1)), and ``sign.share`` (of
        neurons with (prod_j u_j) (w_0 - w_1) >= 0); and ``outside.weighted``, ``alignment.weighted`` and
        ``sign.weighted``. At the largest margin ``outside`` is 0 and all else 1.
        """
        assert isinstance(weights, ParityWeights)
        fits = parity_neurons(weights, snapshot.hidden)
        return {
            "size": _sizes(weights),
            **{f"neurons{ending}": float(which.sum()) for ending, which in self.chosen(weights)},
            **self.summary(weights, "outside", fits.outside, largest=np.max, rms=_rms),
            **self.summary(weights, "magnitude", fits.largest, largest=np.max),
            **self.summary(weights, "magnitude", fits.smallest, least=np.min),
            **self.summary(weights, "alignment", fits.alignment, mean=np.mean, least=np.min),
            **self.summary(weights, "sign", fits.sign >= 0, share=np.mean),
            **self.weighted(weights, outside=fits.outside, alignment=fits.alignment, sign=fits.sign >= 0),
        }


def _sizes(weights: HomogeneousWeights) -> Float[np.ndarray, " neurons"]:
    """Return the neurons' norms relative to the largest, float32."""
    return np.asarray(weights.norms / weights.norms.max(), np.float32)


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt((values**2).mean()))


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """Return ratios where the denominator is not 0, nan elsewhere."""
    return np.asarray(np.divide(part, whole, out=np.full(len(whole), np.nan), where=whole > 0))


def _labels(snapshot: Snapshot) -> Labels:
    """Return the labels of a trial's population, computed once."""
    family = family_of(snapshot.task)
    assert family is not None
    labels: Labels = snapshot.remember(
        "population labels", lambda: np.asarray(family.labels(snapshot.task, snapshot.hidden))
    )
    return labels
