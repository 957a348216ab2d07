"""The list of calculators is complete, and every one says where it comes from."""

import inspect

import elegans as el
from elegans import theory


def test_the_functions_of_the_facade_are_those_with_a_formula_and_a_source():
    functions = {name for name in theory.__all__ if inspect.isfunction(getattr(theory, name))}
    listed = theory.catalogue()
    assert {entry.name for entry in listed} == functions - {"catalogue"}
    assert all(entry.formula and entry.source and entry.summary.endswith(".") for entry in listed)


def test_an_entry_reads_as_its_docstring_does():
    entry = next(entry for entry in theory.catalogue() if entry.name == "majority_ratio")
    assert entry.signature == "(n, degree)"
    assert entry.formula == "|hat Maj_n(d + 2)| / |hat Maj_n(d)| = d / (n - d - 1), with opposite signs."
    assert entry.source == "follows from Pareto frontiers, Lemma 17."


def test_theory_errors_are_errors_of_the_package_and_of_values():
    assert issubclass(el.errors.TheoryError, el.errors.ElegansError)
    assert issubclass(el.errors.TheoryError, ValueError)
    assert el.theory is theory
