"""Records read from TOML and JSON of any origin; anything else is refused in one line."""

import json
import re
import tomllib
from typing import Any, Literal

from elegans.errors import ElegansError, article

DEEPEST = 64  # maximum number of levels of a record
_WORD = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')"""
_LONG_KEY = re.compile(rf"(?<![\w-]){_WORD}(?:[ \t]*+\.[ \t]*+{_WORD}){{{DEEPEST},}}")


def read(text: str, syntax: Literal["JSON", "TOML"], what: str, refusal: type[ElegansError]) -> dict[str, Any]:
    """Return the record written in a text.

    Args:
        text: JSON or TOML.
        syntax: which of the two.
        what: what the record describes, for messages: ``a trial``.
        refusal: the error to raise.

    Raises:
        ElegansError: of the type ``refusal``: another syntax, no record, too many levels, numbers of too many digits.
    """
    if not isinstance(text, str):
        raise refusal(f"{what} must be {syntax} in a string: got {article(type(text).__name__)}")
    if syntax == "TOML" and _LONG_KEY.search(text):  # tomllib would take quadratic time
        raise refusal(f"{what} must have at most {DEEPEST} levels: a key of more dots than that")
    try:
        record = json.loads(text) if syntax == "JSON" else tomllib.loads(text)
    except RecursionError:
        raise refusal(f"{what} must have at most {DEEPEST} levels: too many nested brackets") from None
    except ValueError as error:  # a syntax error, or a whole number of thousands of digits
        reason = " ".join(str(error).split()).partition(";")[0]
        raise refusal(f"{what} must be {syntax}: {reason}") from None
    if not isinstance(record, dict):
        raise refusal(f"{what} must be a record in {syntax}: got {article(type(record).__name__)}")
    if (levels := depth(record)) > DEEPEST:
        raise refusal(f"{what} must have at most {DEEPEST} levels: levels={levels}")
    return record


def depth(value: Any) -> int:
    """Return how deeply records and lists are nested; counted level by level, so that no depth is too great."""
    levels, layer = 0, [value]
    while layer := [item for item in layer if isinstance(item, dict | list)]:
        levels += 1
        layer = [inner for item in layer for inner in (item.values() if isinstance(item, dict) else item)]
    return levels
