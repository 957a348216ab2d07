"""The list of extension points: each base class with what a class of one's own must and may define."""

import ast
import inspect
import textwrap

import elegans as el
from elegans.discovery import below, load
from elegans.experiments import Experiment, Option, Scale
from elegans.experiments.claims import Claim, Verdict
from elegans.learners.base import LearnerRun
from elegans.models.inits import AffineInit
from elegans.training.engines.base import Engine

POINTS: dict[str, tuple[type, ...]] = {
    "Tasks": (el.Task, el.tasks.PairTask, el.tasks.BooleanFunction, el.tasks.Prior, el.Group),
    "Regimes": (el.Regime,),
    "Models": (el.Model, el.Activation, el.Init, AffineInit),
    "Training": (
        el.Training,
        el.training.Minibatches,
        el.training.Adaptive,
        el.Loss,
        el.training.Penalty,
        el.training.Schedule,
        el.training.Readout,
    ),
    "Learners that are not networks": (el.Learner, LearnerRun),
    "Probes": (el.Probe,),
    "Experiments and claims": (Experiment, Scale, Option, Claim, Verdict),
    "Engines": (Engine,),
}
"""By section, classes to derive from; those of experiments and claims are made with the given fields instead."""
WIDEST = 100
"""Characters of a signature above which annotations of arguments are left out."""


def extension_points() -> str:
    """Return every extension point as Python."""
    return "\n\n".join(f"## {title}\n\n" + "\n\n".join(map(_block, kinds)) for title, kinds in POINTS.items())


def _block(kind: type) -> str:
    """Return a class as a stub, with its fields and the methods that classes derived from it define."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(tree, ast.ClassDef)
    abstract: frozenset[str] = getattr(kind, "__abstractmethods__", frozenset())
    derived = [load(one.module, one.name) for one in below(kind.__name__)]
    defined = {name for member in derived for name in vars(member)} | abstract
    methods = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in defined]
    methods = [node for node in methods if not node.name.startswith("_") and _first_line(node)]
    methods.sort(key=lambda node: node.name not in abstract)
    bases = f"({', '.join(map(ast.unparse, tree.bases))})" if tree.bases else ""
    lines = [f"class {kind.__name__}{bases}:", f'    """{_first_line(tree)}"""']
    fields = [node for node in tree.body if isinstance(node, ast.AnnAssign)]
    lines += [f"    {ast.unparse(node)}" for node in fields if not ast.unparse(node.target).startswith("_")]
    for node in methods:
        lines += ["", *(f"    @{ast.unparse(mark)}" for mark in node.decorator_list)]
        lines += [f"    {_signature(node)}", f'        """{_first_line(node)}"""']
    return f"Module `{kind.__module__}`:\n\n```python\n" + "\n".join(lines) + "\n```"


def _signature(node: ast.FunctionDef) -> str:
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    text = f"def {node.name}({ast.unparse(node.args)}){returns}:"
    if len(text) > WIDEST:
        for argument in [*node.args.args, *node.args.kwonlyargs]:
            argument.annotation = None
        text = f"def {node.name}({ast.unparse(node.args)}){returns}:"
    return text


def _first_line(node: ast.ClassDef | ast.FunctionDef) -> str:
    return (ast.get_docstring(node) or "").partition("\n")[0]
