"""Numbers as pages show them: minus signs, powers of ten, thousands, one precision for a number and its interval."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

MINUS = "−"  # noqa: RUF001
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
SMALLEST, LARGEST = 1e-4, 1e7
"""Between these sizes a number is written without a power of ten."""
OPTIMISERS = {"adam": "Adam", "adamw": "AdamW", "sgd": "SGD"}
_NUMBER = r"[-+]?(?:\d+\.\d+|\d+)(?:e[-+]?\d+)?"
_INTERVAL = re.compile(rf"(?<![\w.^/])(?<!\d,)({_NUMBER})(%?) \(({_NUMBER})%? to ({_NUMBER})%?\)")
_ALONE = re.compile(rf"(?<![\w.^/-])(?<!\d,)({_NUMBER})(?![\w^/]|\.\d|,\d{{3}}\b|-\w)")
_COMPARED = re.compile(r"\b(?:above|below|over|under|more than|at most|at least) \Z")
_UNTOUCHED = re.compile(
    r"<(code|pre|script|style|svg|mjx-container)\b.*?</\1>|<span class=\"arithmatex\".*?</span>"
    r"|<div class=\"arithmatex\".*?</div>|<[^>]*>",
    re.DOTALL,
)
"""Parts of a page whose hyphens are no minus signs: code, formulas and tags."""
_SIGN = re.compile(r"(?<![\w.)\]-])-(?=\.?\d)")


def number(value: float | None, digits: int = 3, percent: bool = False, signed: bool = False) -> str:
    """Return a number with so many significant digits, without zeros at its end, or as a whole number if it is one."""
    if value is not None and math.isnan(value):
        return ""
    if value is None or math.isinf(value):
        return "∞" if value is None or value > 0 else f"{MINUS}∞"
    if percent:
        return f"{number(100 * value, digits, signed=signed)}%"
    if float(value).is_integer() and abs(value) < LARGEST:
        return _fixed(value, 0, signed)
    size = _size(value)
    if not _written_out(value):
        mantissa, _, power = f"{value:.{digits - 1}e}".partition("e")
        ten = f"10{str(int(power)).translate(SUPERSCRIPTS)}"
        factor = _fixed(float(mantissa), digits - 1, signed, trimmed=True)
        return {"1": ten, f"{MINUS}1": f"{MINUS}{ten}"}.get(factor, f"{factor} × {ten}")  # noqa: RUF001
    return _fixed(value, max(digits - 1 - size, 0), signed, trimmed=True)


def with_interval(
    value: float, interval: Sequence[float | None], digits: int = 3, percent: bool = False, signed: bool = False
) -> str:
    """Return a number with its interval, all three with the same decimals: ``9.6% (6.0% to 14.0%)``.

    The decimals are those of two digits of the interval's length, at least one and at most ``digits`` digits of the
    number, and more where the limits would look equal.
    """
    factor, unit = (100, "%") if percent else (1, "")
    low, middle, high = (math.inf if one is None else factor * one for one in (interval[0], value, interval[1]))
    finite = [one for one in (low, middle, high) if math.isfinite(one)]
    if not finite or not all(one == 0 or _written_out(one) for one in finite):
        shown = [number(one, digits, signed=signed) for one in (middle, low, high)]
    else:
        decimals = _decimals(middle, finite, digits)
        shown = [
            _fixed(one, decimals, signed) if math.isfinite(one) else number(one, signed=signed)
            for one in (middle, low, high)
        ]
    return f"{shown[0]}{unit} ({shown[1]}{unit} to {shown[2]}{unit})"


def _decimals(middle: float, finite: Sequence[float], digits: int) -> int:
    """Return how many decimals a number and its limits need."""
    if all(float(one).is_integer() for one in finite):
        return 0
    length = max(finite) - min(finite)
    size = _size(middle or max(finite, key=abs))
    of_length = 1 - _size(length) if length else digits - 1 - size
    wanted = min(max(of_length, -size), digits - 1 - size)
    if length and round(min(finite), max(wanted, 0)) == round(max(finite), max(wanted, 0)):
        wanted = of_length - 1
    return max(wanted, 0)


def _size(value: float) -> int:
    """Return the power of ten of a number's first digit."""
    return math.floor(math.log10(abs(value))) if value else 0


def _written_out(value: float) -> bool:
    return SMALLEST <= abs(value) < LARGEST


def _fixed(value: float, decimals: int, signed: bool = False, *, trimmed: bool = False) -> str:
    """Return a number with so many decimals, commas between thousands from 10,000 on, and a minus sign."""
    rounded = round(float(value), decimals)
    text = f"{abs(rounded):{',' if abs(rounded) >= 10_000 else ''}.{decimals}f}"
    if trimmed and "." in text:
        text = text.rstrip("0").rstrip(".")
    sign = MINUS if rounded < 0 else "+" if signed else ""
    return sign + text


def set_numbers(text: str, exact: Mapping[str, float] | None = None) -> str:
    """Return a text of the evidence, such as a verdict's reason, with its numbers set as those of pages.

    Args:
        exact: the exact value of each number by its form in the text, which may be rounded; so it is rounded only once.
    """
    exact = exact or {}
    text = re.sub(rf"{MINUS}(?=\.?\d)", "-", text)  # of a text whose formulas are set
    text = re.sub(r"\b(?:adamw?|sgd)\b(?=[:,])", lambda found: OPTIMISERS[found[0]], text)
    text = re.sub(r"\bsparse:(\d+)", r"\1-sparse", re.sub(r"\bsample:(\d+)", r"\1 examples", text))
    text = re.sub(r"(?<![\w.])(?:1e\+?300|inf)\b", "∞", re.sub(r"(?<![\w.)\]])-(?=0%)", "", text))
    text = re.sub(r"(?<=: )(?:True|False)\b", lambda found: named(found[0]), text)
    text = _INTERVAL.sub(lambda found: _set_interval(found, exact), text)
    text = _ALONE.sub(lambda found: found[1] if _is_threshold(found) else _set(found[1], exact), text)
    return _SIGN.sub(MINUS, re.sub(r"(?<=[\w)>|]) - (?=[\w(√‖<|])", f" {MINUS} ", text))


def named(text: str) -> str:
    """Return a name of code in words: ``error_below_1_percent`` as ``error below 1%``; other texts as they are."""
    if text in ("True", "False"):
        return "yes" if text == "True" else "no"
    if not re.fullmatch(r"[a-z]{2,}\d*(?:_[a-z0-9]+)+", text):
        return text
    words = re.sub(r"(?<=[a-z])(?=\d)", " ", text.replace("_", " "))
    return words.replace(" percent", "%")


def exact_numbers(value: Any) -> dict[str, float]:
    """Return the numbers of a verdict, at any depth, by their form with four significant digits, as reasons have it."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        return {shown: number for one in value for shown, number in exact_numbers(one).items()}
    return {f"{value:.4g}": value} if isinstance(value, float) and math.isfinite(value) else {}


def _set_interval(found: re.Match[str], exact: Mapping[str, float]) -> str:
    signed = found[1].startswith("+")
    values = [exact.get(found[place], float(found[place])) for place in (1, 3, 4)]
    if not values[1] <= values[0] <= values[2]:
        return found[0]
    factor = 0.01 if found[2] else 1.0
    middle, low, high = (factor * one for one in values)
    return with_interval(middle, (low, high), percent=bool(found[2]), signed=signed)


def _is_threshold(found: re.Match[str]) -> bool:
    """Return whether a number of a text was chosen as a threshold: it has at most four digits, as 48.75."""
    few = len(found[1].replace(".", "").lstrip("0")) <= 4 and "." in found[1]
    return few and _COMPARED.search(found.string, 0, found.start()) is not None


def _set(text: str, exact: Mapping[str, float]) -> str:
    """Return a number of a text with at most three significant digits, or as it is where it has no more."""
    plain = text.lstrip("+-")
    digits = len(plain.partition("e")[0].replace(".", "").lstrip("0"))
    if "e" not in plain and (digits <= 3 or ("." not in plain and float(plain) < 10_000)):
        return text
    return number(exact.get(text, float(text)), signed=text.startswith("+"))


def signed(html: str) -> str:
    """Return a page with a minus sign before each negative number, but in code, formulas and tags."""
    parts, last = [], 0
    for found in _UNTOUCHED.finditer(html):
        parts += [_SIGN.sub(MINUS, html[last : found.start()]), found[0]]
        last = found.end()
    return "".join([*parts, _SIGN.sub(MINUS, html[last:])])
