"""Claims: published statements, each with the rule that decides it from an experiment's tables.

A rule is written before the run that it judges. Its ``version`` is recorded with every verdict, so that verdicts of an
earlier rule can be recognised.
"""

import ast
import hashlib
import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from symtable import SymbolTable, symtable
from types import FunctionType, ModuleType
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pandas as pd

from elegans.display import card, displayed
from elegans.errors import ClaimError, ElegansError, shown
from elegans.experiments.words import (
    CORRECTED as CORRECTED,
    FAILS as FAILS,
    HOLDS as HOLDS,
    IN_PART as IN_PART,
    LACKS as LACKS,
    UNDECIDED as UNDECIDED,
    VERDICTS as VERDICTS,
)

Rule = TypeVar("Rule", bound=Callable[..., Any])


class InsufficientData(Exception):
    """The tables lack what a rule needs: the claim is undecided, and the message states what would decide it."""


@displayed
@dataclass(frozen=True)
class Verdict:
    """A rule's verdict on a claim.

    Args:
        verdict: ``holds``; ``holds with correction``, if the statement as printed has a misprint or a wrong constant
            and its corrected form holds; ``holds in part``, in some settings and not in others; ``fails``; or
            ``undecided``.
        because: the reason in one sentence, with the deciding numbers.
        numbers: these numbers with their intervals, in JSON types.
        error_rate: the largest probability that the rule says ``holds`` of a false claim, or ``fails`` of a true one;
            0 for exact computations.
        needs: for an undecided claim, what would decide it; for a claim that holds in part, where it holds; for one
            that holds with correction, the corrected form.
    """

    verdict: str
    because: str
    numbers: Mapping[str, Any] = field(default_factory=dict)
    error_rate: float = 0.0
    needs: str = ""

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            raise ClaimError(f"a verdict must be one of {', '.join(VERDICTS)}: verdict={self.verdict!r}")
        if not 0 <= self.error_rate <= 1:
            raise ClaimError(f"an error rate must lie between 0 and 1: error_rate={self.error_rate}")
        if self.verdict in (CORRECTED, IN_PART, UNDECIDED) and not self.needs:
            raise ClaimError(f"a verdict {self.verdict!r} must state its needs: needs={self.needs!r}")

    def but(self, verdict: str = "", *, because: str = "", needs: str = "", **numbers: Any) -> "Verdict":
        """Return the verdict with another ``verdict``, a further reason, or further numbers by name.

        Args:
            verdict: another verdict; the same by default.
            because: a further reason, which is added to the first.
            needs: what another verdict needs; the same by default.
            numbers: added to the deciding numbers.
        """
        reasons = f"{self.because}; {because}" if because else self.because
        needs = needs or (self.needs if verdict in ("", self.verdict) else "")
        return Verdict(verdict or self.verdict, reasons, {**self.numbers, **numbers}, self.error_rate, needs)

    def record(self) -> dict[str, Any]:
        """Return the verdict in JSON types."""
        return {
            "verdict": self.verdict,
            "because": self.because,
            **({"needs": self.needs} if self.needs else {}),
            "error_rate": float(f"{self.error_rate:.2g}"),
            "numbers": plain(self.numbers),
        }


@dataclass(frozen=True)
class Claim:
    """A published statement and the rule that decides it.

    ``claim`` makes one of its rule. ``id``, ``statement`` and ``source`` are literals: ``elegans claims`` reads them
    without importing the experiment.

    Args:
        id: ``<work>/<name>``: ``margins/mod-single-frequency``.
        statement: what the work states, in one or two sentences.
        source: where it does so: figure, table, theorem or section.
        rule: how it is decided, in words: numbers of trials, thresholds, and which of these we chose.
        decide: turns the experiment's tables into the verdict, or raises ``InsufficientData``.
        setting: the published setting, and what the work leaves open.
        revised: how and why the rule was changed after a run that it judged, if it was.
    """

    id: str
    statement: str
    source: str
    rule: str
    decide: Callable[[Any], Verdict]
    setting: str = ""
    revised: str = ""

    def _repr_html_(self) -> str:
        facts = {"states": self.statement, "source": self.source, "published setting": self.setting or None}
        return card(f"Claim {self.id}", {**facts, "rule": self.rule, "revised": self.revised or None})

    def __call__(self, tables: Mapping[str, pd.DataFrame]) -> Verdict:
        """Return the rule's verdict on an experiment's tables, by name."""
        return self.decide(tables)

    @property
    def version(self) -> str:
        """The version of the rule: a hash of its code, its constants, and the numbers of the shared rules it uses."""
        return rule_version(self.decide)

    @property
    def arithmetic(self) -> bool:
        """Whether the rule decides without any table, so that a run's trials do not matter."""
        try:
            return self.decide({}).verdict != UNDECIDED
        except (ElegansError, InsufficientData, LookupError):
            return False


def claim(
    *, id: str, statement: str, source: str, rule: str, setting: str = "", revised: str = ""
) -> Callable[[Callable[[Any], Verdict]], Claim]:
    """Return a decorator that turns a rule into the claim that it decides: ``@claim(id="xor/two-phases", …)``.

    Arguments are the same as for ``Claim``.
    """
    return lambda decide: Claim(id, statement, source, rule, decide, setting, revised)


def judge(claims: Sequence[Claim], tables: Mapping[str, pd.DataFrame]) -> dict[str, dict[str, Any]]:
    """Return the verdict of each claim on an experiment's tables, by id, with the ``rule`` version that gave it."""
    verdicts = {}
    for claim in claims:
        try:
            verdict = claim.decide(tables)
            if not isinstance(verdict, Verdict):
                raise ClaimError(f"the rule of a claim must return a Verdict: {claim.id} returns {shown(verdict)}")
        except InsufficientData as lacking:
            verdict = Verdict(UNDECIDED, f"{LACKS} {lacking}", needs=str(lacking))
        verdicts[claim.id] = {**verdict.record(), "rule": claim.version}
    return verdicts


def plain(value: Any) -> Any:
    """Return a value in JSON types: numbers with six significant digits, None where they are not finite."""
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple | set | np.ndarray | pd.Series):
        return [plain(entry) for entry in value]
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(f"{value:.6g}") if np.isfinite(value) else None
    return None if value is None or value is pd.NA else str(value)


def shared(version: int) -> Callable[[Rule], Rule]:
    """Mark a function that rules of several files share with the version of its meaning.

    Raise the number when the function would decide some table otherwise: all rules that use it then count as changed.
    How it is written does not count.
    """

    def mark(function: Rule) -> Rule:
        function.rule_version = version  # type: ignore[attr-defined]
        return function

    return mark


def rule_version(decide: Callable[..., Any]) -> str:
    """Return a hash of a rule: its code, the functions and constants of its study that it names, and shared rules.

    A ``shared`` function counts by its name and number. Docstrings, comments and layout do not count.
    """
    if isinstance(decide, partial):
        arguments = repr((decide.args, sorted(decide.keywords.items())))
        return hashlib.sha256((rule_version(decide.func) + arguments).encode()).hexdigest()[:12]
    assert isinstance(decide, FunctionType)
    home = _home(decide)
    return hashlib.sha256("\n".join(_texts(decide, home, set())).encode()).hexdigest()[:12]


def _home(function: FunctionType) -> str:
    """Return the package of a function's module, or the module itself where it is a file of its own."""
    return function.__module__.rpartition(".")[0] or function.__module__


def _texts(function: FunctionType, home: str, visited: set[str]) -> Iterator[str]:
    """Yield the number of a shared function, else the syntax of a function and of what it names of its study."""
    visited.add(function.__qualname__)
    if (number := getattr(function, "rule_version", None)) is not None:
        yield f"{function.__qualname__} {number}"
        return
    syntax = _syntax(function)
    yield syntax.text
    for name, value in _named(syntax, function.__globals__):
        value = value.decide if isinstance(value, Claim) else value
        if isinstance(value, FunctionType):
            counts = hasattr(value, "rule_version") or _home(value) == home
            if counts and value.__qualname__ not in visited:
                yield from _texts(value, home, visited)
        elif isinstance(value, int | float | str | tuple | dict | frozenset):
            yield f"{name}={value!r}"


class _Syntax(NamedTuple):
    """The syntax of a function as text, the names of its module, and the attributes taken of each name."""

    text: str
    names: Sequence[str]
    members: Mapping[str, set[str]]


@lru_cache(maxsize=4096)
def _syntax(function: FunctionType) -> _Syntax:
    """Return the syntax of a function, which takes a hundred times as long as the values of the names."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    assert isinstance(tree.body[0], ast.FunctionDef)
    tree.body[0].name = ""
    tree.body[0].decorator_list = [one for one in tree.body[0].decorator_list if not _is_claim(one)]
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    text = _dumped(tree)
    tree.body[0].name = "rule"  # a name that the syntax allows
    names = sorted(_global_names(symtable(ast.unparse(tree), "rule", "exec")))
    members: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            members.setdefault(node.value.id, set()).add(node.attr)
    return _Syntax(text, names, members)


def _named(syntax: _Syntax, scope: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the names of its module that a function refers to, with their values, and members of modules of elegans.

    A local name counts for nothing, even where the module has the same.
    """
    for name in syntax.names:
        value = scope.get(name)
        if not isinstance(value, ModuleType):
            yield name, value
        elif value.__name__.partition(".")[0] in ("elegans", scope["__name__"].partition(".")[0]):
            members = sorted(syntax.members.get(name, ()))
            yield from ((f"{name}.{member}", getattr(value, member, None)) for member in members)


def _global_names(table: SymbolTable) -> set[str]:
    names = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_global() and symbol.is_referenced()}
    return names.union(*map(_global_names, table.get_children()))


def _is_claim(decorator: ast.expr) -> bool:
    return isinstance(decorator, ast.Call) and ast.unparse(decorator.func).rpartition(".")[2] == "claim"


def _dumped(node: Any) -> str:
    """Return a syntax tree as text, without empty fields, which differ between versions of Python."""
    if isinstance(node, ast.AST):
        fields = [(name, value) for name, value in ast.iter_fields(node) if value not in (None, []) and name != "ctx"]
        return f"{type(node).__name__}({', '.join(f'{name}={_dumped(value)}' for name, value in fields)})"
    return f"[{', '.join(map(_dumped, node))}]" if isinstance(node, list) else repr(node)
