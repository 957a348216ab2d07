"""Markov chains in context: priors, walks, stationary starts, and true conditionals, against enumeration."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import elegans as el
from elegans.tasks import chains as walks

KEY = el.random.stream(0, "sample")


def index(count):
    return np.arange(count, dtype=np.uint32)


def rows(prior, k, count=4000):
    return el.tasks.Prior.parse(prior).rows(KEY, index(count), k)


def solved(matrix):
    """Stationary distributions from the equations of all states but one, in double precision."""
    states = matrix.shape[1]
    system = np.swapaxes(np.asarray(matrix, float), 1, 2) - np.eye(states)
    system[:, -1] = 1
    return np.linalg.solve(system, np.eye(states)[:, -1:])[:, :, 0]


MARGINALS = {
    ("dirichlet", 2): (1, 1),
    ("dirichlet", 8): (1, 7),
    ("dirichlet:3,1,2", 3): (3, 3),
    ("dirichlet:2", 4): (2, 6),
    ("dirichlet:0.3", 3): (0.3, 0.6),
    ("dirichlet:1.5", 2): (1.5, 1.5),
    ("ngram:3", 3): (1, 2),
    ("unigram", 4): (1, 3),
    ("symmetric2", 2): (1, 1),
}


@pytest.mark.parametrize(("prior", "k"), MARGINALS)
def test_entries_of_rows_have_beta_distributions(prior, k):
    """Kolmogorov-Smirnov on the first entries of the first and the last row, at 10^-5 each."""
    found = rows(prior, k)
    law = stats.beta(*MARGINALS[prior, k])
    assert found.dtype == np.float32
    assert found.sum(axis=-1) == pytest.approx(1, abs=3e-7)
    assert stats.kstest(found[:, 0, 0], law.cdf).pvalue > 1e-5
    assert stats.kstest(found[:, -1, -1 if prior == "symmetric2" else 0], law.cdf).pvalue > 1e-5


def test_rows_are_independent_and_one_row_is_all_of_a_unigram():
    """A correlation of 4000 pairs has standard deviation 0.016: 4.5 of them once in 10^5 runs."""
    first, second = rows("dirichlet", 3)[:, :2, 0].T
    assert abs(np.corrcoef(first, second)[0, 1]) < 4.5 / np.sqrt(4000)
    assert np.ptp(rows("unigram", 3), axis=1).max() == 0


@pytest.mark.parametrize(("k", "tries"), [(3, 40_000), (4, 300_000)])
def test_doubly_stochastic_matrices_are_uniform(k, tries):
    """Two-sample Kolmogorov-Smirnov against rejection from the unit cube, on two entries and the largest one, at 10^-5;
    the share of the cube is 1/8 and 9.7 x 10^-4 within 4.5 standard deviations: one failure in 20000 runs."""
    block = np.random.default_rng(0).random((tries, k - 1, k - 1))
    right, below = 1 - block.sum(axis=2), 1 - block.sum(axis=1)
    corner = 1 - right.sum(axis=1)
    kept = (right > 0).all(axis=1) & (below > 0).all(axis=1) & (corner > 0)
    share = {3: 1 / 8, 4: 176 / (2835 * 64)}[k]
    assert abs(kept.mean() - share) < 4.5 * np.sqrt(share / tries)
    found = rows("doubly-stochastic", k)
    assert found.min() > 0
    assert found.sum(axis=1) == pytest.approx(1, abs=3e-7) and found.sum(axis=2) == pytest.approx(1, abs=3e-7)
    reference = (block[kept, 0, 0], corner[kept], block[kept].max(axis=(1, 2)))
    drawn = (found[:, 0, 0], found[:, -1, -1], found[:, :-1, :-1].max(axis=(1, 2)))
    assert all(stats.ks_2samp(one, other).pvalue > 1e-5 for one, other in zip(reference, drawn, strict=True))


def test_scaled_matrices_are_doubly_stochastic_for_any_k_and_not_uniform():
    """The first entry's distribution differs from the uniform matrices' by Kolmogorov-Smirnov at 10^-6."""
    found = rows("doubly-stochastic:sinkhorn", 8)
    assert found.sum(axis=1) == pytest.approx(1, abs=1e-6) and found.sum(axis=2) == pytest.approx(1, abs=1e-6)
    other, uniform = rows("doubly-stochastic:sinkhorn", 2)[:, 0, 0], rows("doubly-stochastic", 2)[:, 0, 0]
    assert stats.ks_2samp(other, uniform).pvalue < 1e-6


def test_a_mixture_has_its_share_of_each_prior():
    """A binomial test at 10^-5."""
    found = rows("mixture:0.3", 3)
    equal = np.ptp(found, axis=1).max(axis=1) == 0
    assert stats.binomtest(int((~equal).sum()), len(found), 0.3).pvalue > 1e-5
    assert found[~equal].sum(axis=1) == pytest.approx(1, abs=3e-7)


def test_symmetric_chains_stay_in_their_interval():
    kept = rows("symmetric2:0.1", 2)[:, 0, 0]
    assert 0.4 <= kept.min() < 0.401 and 0.599 < kept.max() <= 0.6


@pytest.mark.parametrize(("leave", "enter"), [(1e-9, 3e-9), (1 - 1e-9, 1 - 3e-9), (1e-7, 0.5), (0.25, 0.25)])
def test_stationary_distributions_are_exact_where_eigenvalues_are_close_to_1_and_minus_1(leave, enter):
    matrix = np.array([[[1 - leave, leave], [enter, 1 - enter]]])
    exact = Fraction(enter) / (Fraction(leave) + Fraction(enter))
    assert walks.stationary_distribution(matrix)[0, 0] == pytest.approx(float(exact), rel=1e-15)
    single = walks.stationary_distribution(matrix.astype(np.float32))
    exact = Fraction(float(np.float32(enter))) / (
        Fraction(float(np.float32(leave))) + Fraction(float(np.float32(enter)))
    )
    assert single.dtype == np.float32 and single[0, 0] == pytest.approx(float(exact), rel=3e-7)


def test_stationary_distributions_of_larger_chains_solve_their_equations():
    matrix = np.random.default_rng(1).dirichlet(np.ones(9), size=(50, 9))
    law = walks.stationary_distribution(matrix)
    assert np.einsum("ci,cij->cj", law, matrix) == pytest.approx(law, abs=1e-15)
    assert walks.stationary_distribution(np.array([[[0.5, 0.5], [0.0, 1.0]]]))[0] == pytest.approx([0, 1], abs=1e-15)


@pytest.mark.parametrize("steps", [1, 2, 3, 7, 8, 21])
def test_walks_by_doubling_are_walks_step_by_step(steps):
    generator = np.random.default_rng(2)
    maps, first = generator.integers(5, size=(30, steps, 5)), generator.integers(5, size=30)
    states = [first]
    for step in range(steps - 1):
        states.append(maps[np.arange(30), step, states[-1]])
    assert np.array_equal(walks.walk(maps, first), np.stack(states, axis=1))


def distribution_of_sequences(task, chains):
    """The probability of every sequence of length + 1 tokens, chain by chain."""
    width = task.prior.order - 1
    start = np.full(chains.shape[:2], 1 / chains.shape[1])
    if task.start == "stationary":
        start = solved(walks.transitions(chains))
    laws = {}
    for sequence in itertools.product(range(task.k), repeat=task.length + 1):
        codes = [int("".join(map(str, sequence[at : at + width])), task.k) for at in range(task.length + 2 - width)]
        law = start[:, codes[0]]
        for code, token in zip(codes, sequence[width:], strict=False):
            law = law * chains[:, code, token]
        laws[sequence] = law
    return laws


SMALL = [
    el.MarkovChains(k=2, length=3),
    el.MarkovChains(k=3, length=2, start="uniform"),
    el.MarkovChains(k=3, length=2, prior="mixture:0.5"),
    el.MarkovChains(k=2, length=4, prior="ngram:4"),
    el.MarkovChains(k=2, length=3, prior="ngram:3", start="uniform"),
]


@pytest.mark.parametrize("task", SMALL, ids=lambda task: f"{task.prior.label()}-{task.start}")
def test_sequences_have_the_distribution_of_their_chains(task):
    """Given the chains, the number of examples with a sequence has a known mean and variance; at most 32 sequences,
    each within 5 standard deviations: one failure in 5 x 10^4 runs."""
    chains = task.chains(KEY, index(20_000)).astype(float)
    x, y = task.examples(None, KEY, index(20_000))
    tokens = np.concatenate([x, y[:, -1:]], axis=1)
    laws = distribution_of_sequences(task, chains)
    assert sum(laws.values()) == pytest.approx(1, abs=1e-5)
    for sequence, law in laws.items():
        found = (tokens == sequence).all(axis=1).sum()
        assert abs(found - law.sum()) < 5 * np.sqrt((law * (1 - law)).sum())


@pytest.mark.parametrize("task", SMALL, ids=lambda task: f"{task.prior.label()}-{task.start}")
def test_conditionals_are_ratios_of_the_distribution_of_sequences(task):
    few = index(6)
    x, _ = task.examples(None, KEY, few)
    found = task.conditionals(None, KEY, few)
    laws = distribution_of_sequences(task, task.chains(KEY, few).astype(float))
    assert found.shape == (6, task.length, task.k)
    for example, place in itertools.product(range(6), range(task.length)):
        prefix = tuple(x[example, : place + 1])
        joint = [
            sum(law[example] for sequence, law in laws.items() if sequence[: place + 2] == (*prefix, token))
            for token in range(task.k)
        ]
        assert found[example, place] == pytest.approx(np.array(joint) / sum(joint), abs=1e-5)


def test_labels_are_the_next_tokens():
    task = el.MarkovChains(k=8, length=400)
    x, y = task.examples(None, KEY, index(50))
    assert x.shape == y.shape == (50, 400) and x.dtype == y.dtype == np.int32
    assert (task.input_size, task.classes) == (400, 8)
    assert np.array_equal(x[:, 1:], y[:, :-1])
    assert np.array_equal(np.unique(x), np.arange(8))
    alone, _ = task.examples(None, KEY, np.array([17], np.uint32))
    assert np.array_equal(alone[0], x[17])


@pytest.mark.slow
def test_engines_see_the_same_tokens():
    """All numbers that a uniform start compares are multiples of 2^-24: no rounding, with a traced share too."""
    import jax

    task = el.MarkovChains(k=3, length=20, prior="mixture:0.3", start="uniform")

    def draw(words, weight, at):
        key, traced = el.random.Key(*words), task.substitute({"prior.weight": weight})
        return *traced.examples(None, key, at), traced.chains(key, at)

    found = jax.jit(draw)(tuple(np.uint32(word) for word in KEY), np.float32(0.3), index(500))
    expected = (*task.examples(None, KEY, index(500)), task.chains(KEY, index(500)))
    for one, other in zip(found, expected, strict=True):
        assert np.array_equal(one, other) and one.dtype == other.dtype


def test_engines_agree_on_stationary_starts_up_to_rounding():
    import jax

    task = el.MarkovChains(k=2, length=9, prior="ngram:3")
    found = jax.jit(lambda at: (task.examples(None, KEY, at)[0], task.conditionals(None, KEY, at)))(index(500))
    assert (np.asarray(found[0]) == task.examples(None, KEY, index(500))[0]).all(axis=1).mean() > 0.99
    assert np.asarray(found[1])[:, 2:].sum(axis=-1) == pytest.approx(1, abs=1e-6)


REFUSED = [
    ({"k": 1}, "k must be greater than or equal to 2: k=1"),
    ({"length": 0}, "length must be greater than or equal to 1: length=0"),
    ({"prior": "ngram:5", "length": 4}, "order of the chains must be at most the length: order=5 of ngram:5, length=4"),
    ({"prior": "ngram:1"}, "n must be greater than or equal to 2: n=1"),
    ({"prior": "ngram:9"}, r"at most 128 contexts k\^\(n - 1\): 256 for k=2, n=9"),
    ({"prior": "doubly-stochastic", "k": 5}, "must have k at most 4 .*'doubly-stochastic:sinkhorn'.*: k=5"),
    ({"prior": "mixture:0.5", "k": 5}, "must have k at most 4 .*: k=5"),
    ({"prior": "mixture:1.5"}, "weight must be less than or equal to 1: weight=1.5"),
    ({"prior": {"kind": "mixture", "first": "ngram:3"}}, "must have the same order: ngram:3 has 3, unigram 2"),
    ({"prior": "symmetric2", "k": 3}, "k of symmetric2 must be 2: k=3"),
    ({"prior": "symmetric2:0.6"}, "epsilon must be less than or equal to 0.5: epsilon=0.6"),
    ({"prior": "dirichlet:0"}, r"alpha of a Dirichlet distribution must be positive: alpha=\(0.0,\)"),
    ({"prior": "dirichlet:1,2,3"}, r"one number, or one per symbol: alpha=\(1.0, 2.0, 3.0\), k=2"),
    ({"prior": "dirichlett"}, "unknown prior 'dirichlett'; did you mean 'dirichlet'?"),
    ({"start": "first"}, "start must be one of stationary, uniform"),
]


@pytest.mark.parametrize(("fields", "message"), REFUSED)
def test_chains_that_do_not_exist_are_refused(fields, message):
    with pytest.raises(el.errors.TrialError, match=message):
        el.MarkovChains(**fields)


@pytest.mark.parametrize(
    "prior", ["dirichlet:0.5,2", "mixture:0.25", "ngram:3", "doubly-stochastic:sinkhorn", "unigram"]
)
def test_a_task_is_read_back_from_its_record(prior):
    task = el.MarkovChains(prior=prior)
    assert el.Task.parse(task.model_dump(mode="json")) == task
    assert prior in (task.prior.label(), task.prior.kind)
