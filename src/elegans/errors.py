"""The errors and the warning of elegans, with one type of error for each layer of the package.

Every message is one line that states the rule and the offending value, as in
``k must be at most n: k=60, n=50``.
"""

import difflib
import re
from collections.abc import Callable, Collection
from fractions import Fraction

QUOTED = 80
"""Maximum number of characters that a message quotes of a value."""


class ElegansError(Exception):
    """Any error that elegans raises on purpose."""


class ArgumentError(ElegansError, TypeError):
    """An argument of a type that a public function does not accept."""


class TrialError(ElegansError, ValueError):
    """A task, regime, model, training or trial that breaks a rule."""


class UnknownKind(TrialError):
    """A kind of component that names no class: there is none, or its file was not imported."""


class OverlappingDraws(TrialError):
    """User-defined code that draws the same random numbers twice."""


class GroupError(ElegansError, ValueError):
    """A group that does not exist, a table that is not a group's, or irreps that the theory does not cover."""


class EngineError(ElegansError):
    """An engine that does not exist, does not work here, or cannot train a trial."""


class SweepError(ElegansError, ValueError):
    """A grid that names no field of its trial, or a sweep file that cannot be read."""


class RunError(ElegansError):
    """A run in which every trial failed; its note contains the first traceback."""


class StoreError(ElegansError):
    """A store that cannot be opened, read or written."""


class ExperimentError(ElegansError, ValueError):
    """An experiment, scale or figure that does not exist."""


class AnalysisError(ElegansError, ValueError):
    """A statistic that is not defined for the given numbers or table."""


class ClaimError(ElegansError, ValueError):
    """A claim that is unknown, or a verdict or a piece of evidence that breaks a rule."""


class CertificateError(ElegansError, ValueError):
    """A network, task or support that a certificate, read-out or spectrum does not cover."""


class PhenomenonError(ElegansError, ValueError):
    """A phenomenon that does not exist, or whose story is incomplete."""


class TheoryError(ElegansError, ValueError):
    """A calculator called outside its theorem's hypotheses."""


class ElegansWarning(UserWarning):
    """Something worth knowing that stops nothing: trials that failed, code that has changed, a slow engine."""


def shown(value: object, text_of: Callable[[object], str] = repr) -> str:
    """Return a value as messages quote it: one short line, whatever its type.

    Args:
        value: of any type; arrays are shown by their shape, long values by their type.
        text_of: ``repr``, or ``str`` for messages that quote words without quotation marks.
    """
    if isinstance(value, int) and value.bit_length() > 4 * QUOTED:
        more = "" if value.bit_count() == 1 else " or more"
        return f"{'-' if value < 0 else ''}2^{value.bit_length() - 1}{more}"
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and shape:
        return f"{article(type(value).__name__)} of shape {shape}"
    try:
        text = str(value) if isinstance(value, Fraction) else text_of(value)
    except Exception:  # a user's own class, or a list of numbers with too many digits
        return article(type(value).__name__)
    if len(text) > QUOTED and not isinstance(value, str | bytes | list | tuple | dict):
        return article(type(value).__name__)
    text = " ".join(text.split())
    return text if len(text) <= QUOTED else f"{text[:QUOTED]}…"


def article(name: str) -> str:
    """Return a class's name with ``a`` or ``an`` before it."""
    return f"{'an' if name[:1] in 'AEIOUaeio' or name[:3] in ('MLP', 'SGD') else 'a'} {name}"


def counted(number: int, noun: str) -> str:
    """Return a number with separators and its noun, as in ``1 cell`` and ``12,000 cells``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


BEGINNING = 4
"""Minimum number of characters of a beginning for which the whole name is suggested."""

USUAL: dict[str, tuple[str, ...]] = {
    "lr": ("learning_rate",),
    "eta": ("learning_rate",),
    "step_size": ("learning_rate",),
    "wd": ("weight_decay",),
    "l2": ("weight_decay",),
    "epochs": ("steps",),
    "iterations": ("steps",),
    "max_steps": ("steps",),
    "num_steps": ("steps",),
    "bs": ("batch_size",),
    "minibatch_size": ("batch_size",),
    "betas": ("beta1",),
    "eps": ("epsilon",),
    "lr_scheduler": ("schedule",),
    "scheduler": ("schedule",),
    "grad_clip": ("clip",),
    "max_grad_norm": ("clip",),
    "hidden_size": ("width",),
    "hidden_dim": ("width",),
    "hidden_sizes": ("widths",),
    "d_model": ("width",),
    "d_mlp": ("mlp_width",),
    "d_head": ("head_size",),
    "num_heads": ("heads",),
    "n_heads": ("heads",),
    "num_layers": ("layers",),
    "n_layers": ("layers",),
    "weight_init": ("init",),
    "initializer": ("init",),
    "nonlinearity": ("activation",),
    "bias": ("hidden_bias",),
    "optimizer": ("training",),
    "optimiser": ("training",),
    "dataset": ("task",),
    "mse": ("square", "one-hot-square"),
    "l2_loss": ("square", "one-hot-square"),
    "bce": ("logistic",),
    "ce": ("cross-entropy",),
    "nll": ("cross-entropy",),
    "cross_entropy": ("cross-entropy",),
}
"""What other tools call the names of this one, by their names."""


def suggest(name: str, known: Collection[str], otherwise: str = "") -> str:
    """Return ``; elegans calls it …`` for a usual name, ``; did you mean …?`` for the nearest known one, or all.

    Instead of all it returns ``otherwise``, if that is given.
    """
    if not known:
        return "; there are none"
    if usual := [own for own in USUAL.get(name.lower(), ()) if own in known]:
        return f"; elegans calls it {' or '.join(usual)}"
    near = difflib.get_close_matches(name[:QUOTED], known, n=1, cutoff=0.6)
    if len(name) >= BEGINNING:
        near += sorted(word for word in known if word.startswith(name))
    return f"; did you mean {near[0]!r}?" if near else otherwise or f"; known: {', '.join(sorted(known))}"


def brief(text: str, most: int = QUOTED) -> str:
    """Return any text as one short line without terminal control characters."""
    line = printable(text[: most + 1])
    return line if len(line) <= most else f"{line[:most]}…"


def printable(text: str) -> str:
    """Return a text with escapes for control characters and for characters that a terminal cannot show."""
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)


def without_passwords(text: str) -> str:
    """Return a text with the passwords of all URLs in it replaced by three asterisks."""
    text = re.sub(r"(?<=://)([^\s:/@]*):(?!\d{1,5}/)\S*@", r"\1:***@", text)  # a port is not a password
    return re.sub(r"([?&](?:ssl)?password=)[^\s&#]*", r"\1***", text)
