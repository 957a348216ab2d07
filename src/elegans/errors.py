"""What elegans raises and warns of, one type of error for each layer of the house.

Every message is one line that states the rule and the offending value, as in
``k must be at most n: k=60, n=50``.
"""

import difflib
from collections.abc import Collection


class ElegansError(Exception):
    """Any error that elegans raises on purpose."""


class TrialError(ElegansError, ValueError):
    """A task, regime, model, training or trial that breaks a rule."""


class GroupError(ElegansError, ValueError):
    """A group that does not exist, a table that is not that of a group, or irreps that theory does not cover."""


class EngineError(ElegansError):
    """An engine that does not exist, does not work here, or cannot take a trial."""


class SweepError(ElegansError, ValueError):
    """A grid that names no field of its trial, or a sweep file that cannot be read."""


class RunError(ElegansError):
    """A run all of whose trials failed; its note has the first traceback."""


class StoreError(ElegansError):
    """A store that cannot be opened, read or written."""


class ExperimentError(ElegansError, ValueError):
    """An experiment, scale or figure that does not exist."""


class ClaimError(ElegansError, ValueError):
    """A claim that is unknown, or a verdict or a piece of evidence that breaks a rule."""


class CertificateError(ElegansError, ValueError):
    """A network, task or support that a certificate, read-out or spectrum does not cover."""


class TheoryError(ElegansError, ValueError):
    """A theorem's calculator asked outside the theorem's hypotheses."""


class ElegansWarning(UserWarning):
    """What is worth knowing although nothing was refused: trials that failed, code that has changed, a slow engine."""


def suggest(name: str, known: Collection[str]) -> str:
    """Return ``; did you mean …?`` for the nearest known name, or the list of all known names."""
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else f"; there are: {', '.join(sorted(known))}"


def printable(text: str) -> str:
    """Return a text with all that a terminal would act on, or would not show, in escapes."""
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)
