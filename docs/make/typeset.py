"""Formulas of docstrings, which are written in plain characters for the terminal, as TeX between words.

A formula such as ``gamma_k >= 0.03 (n - 1)^(-(k - 1) / 2) for n >= 4k`` is a mixture of mathematics and words. What is
known here as mathematics becomes TeX, between ``\\(`` and ``\\)``; all other words stay text.
"""

import re
from collections.abc import Callable
from html import escape
from itertools import pairwise
from typing import NamedTuple

LETTERS = "alpha beta gamma delta epsilon zeta eta theta kappa lambda mu nu xi pi rho sigma tau phi chi psi omega"
LETTERS += " Gamma Delta Theta Lambda Pi Sigma Phi Psi Omega"
GREEK = {name: "\\" + name for name in LETTERS.split()}
GREEK |= {"epsilon": r"\varepsilon", "eps": r"\varepsilon", "phi": r"\varphi"}
FUNCTION_NAMES = "exp log ln sin cos max min lim sup inf arg det deg"
FUNCTIONS = {name: "\\" + name for name in FUNCTION_NAMES.split()}
OPERATORS = (
    "relu softmax RowSoftmax mask diag win clip act erf artanh sign tr Re Im Ei Half Maj LTF KL TF Attn Lip Rad Bin "
    "Binomial Pdim Score Norm kap median Lg"
)
NAMED = FUNCTIONS | {name: rf"\operatorname{{{name}}}" for name in OPERATORS.split()}
WORDS = (
    GREEK
    | NAMED
    | {"sum": r"\sum", "prod": r"\prod", "integral": r"\int", "grad": r"\nabla", "mod": r"\bmod", "xor": r"\oplus"}
    | {"inf": r"\infty", "infinity": r"\infty", "gt": r"\tilde\gamma", "gbar": r"\bar g"}
    | {name: rf"\mathrm{{d}}{name[1:]}" for name in ["dm", "dt", "dr", "ds", "dq", "dv", "dA", "dW", "dL", "df", "dl"]}
    | {name: " ".join(name) for name in ["ja", "kb", "lc", "ab", "abc"]}
)
"""Words that are mathematics."""
SUBSCRIPTS = GREEK | {"inf": r"\infty", "perp": r"\perp", "min": r"\min", "max": r"\max"}
UPRIGHT = [
    "sig",
    "opp",
    "irr",
    "rel",
    "head",
    "out",
    "in",
    "loss",
    "score",
    "scalar",
    "Norm",
    "BE",
    "cl",
    "CLS",
    "QK",
    "smallest",
]
"""Subscripts that are words or abbreviations, not indices in a row."""
SIGNS = {
    "<=": r"\le ", ">=": r"\ge ", "!=": r"\ne ", "<": r"\lt ", ">": r"\gt ", "->": r"\to ", "<-": r"\leftarrow ",
    "+-": r"\pm ", "||": r"\|", "...": r"\dots ", "…": r"\dots ", "..": r",\dots,", "~": r"\sim ", "#": r"\#",
    "%": r"\%", "∘": r"\circ ", "^": r"\oplus ", ".": r"\cdot ",
}  # fmt: skip
TOKEN = re.compile(
    r"``(?P<code>[^`]+)``"
    r"|(?P<prose>\d-1 loss|1-Lipschitz|n-grams|[a-z]{4,}s'(?=\s)|[A-E]\.\d+|\d+(?:st|nd|th)\b)"
    r"|(?P<compound>[A-Za-z]{2,}(?:-[A-Za-z]{2,})+|[A-Za-z]{2,}'s\b)"
    r"|(?P<number>\d+(?:\.\d+)?(?:e-?\d+)?(?![A-Za-z]*\d))"
    r"|(?P<word>[^\W\d_]+\d*)"
    r"|(?P<sign>\.\.\.|…|\.\.|\|\||<=|>=|!=|->|<-|\+-|\S)"
)
TEXT = ("code", "prose", "compound")
OPEN, CLOSE = "([{", ")]}"
AMBIGUOUS = ["sum", "max", "min", "act", "sign", "mask", "integral", "median"]
"""Words that are functions before their argument, and else text."""
NO_NOUNS = ["of", "above", "and", "exchanged", "uniform", "is", "the"]
"""Words that follow a variable a, and no article."""


class Token(NamedTuple):
    """A token, whether there is space before it, and whether there is space after it."""

    kind: str
    text: str
    before: bool
    after: bool


class Piece(NamedTuple):
    """A part of a formula: mathematics as TeX, or words, with the space before it."""

    math: bool
    text: str
    before: bool


def tokens(formula: str) -> list[Token]:
    """Return the tokens of a formula."""
    matches = list(TOKEN.finditer(formula))
    ends = [0, *(match.end() for match in matches)]
    spaces = [match.start() > end for match, end in zip(matches, ends, strict=False)] + [True]
    return [
        Token(match.lastgroup or "sign", match[match.lastgroup or 0], before, after)
        for match, (before, after) in zip(matches, pairwise(spaces), strict=True)
    ]


class Parser:
    """Reads the tokens of one formula."""

    def __init__(self, formula: str) -> None:
        self.tokens = tokens(formula)
        self.place = 0

    def peek(self, ahead: int = 0) -> Token:
        """Return a token that comes, or an empty one at the end."""
        place = self.place + ahead
        return self.tokens[place] if 0 <= place < len(self.tokens) else Token("end", "", True, True)

    def take(self) -> Token:
        """Return the next token and move on."""
        self.place += 1
        return self.tokens[self.place - 1]

    def pieces(self, closing: bool = False, inside: bool | None = None) -> list[Piece]:
        """Return the parts up to a closing bracket, or to the end; inside brackets words belong to the mathematics."""
        found: list[Piece] = []
        while self.peek().kind != "end":
            if self.peek().text in CLOSE:
                if closing:
                    break
                raise ValueError(f"a bracket closes that was not opened: {self.tokens}")
            found += self.piece(closing if inside is None else inside, found[-1:])
        if closing and self.peek().kind == "end":
            raise ValueError(f"a bracket is not closed: {self.tokens}")
        return found

    def piece(self, inside: bool, last: list[Piece]) -> list[Piece]:
        """Return the next part; words in brackets outside of mathematics are several."""
        token = self.peek()
        if self.is_prose():
            self.take()
            if token.text == '"' and self.peek().kind == "word":
                return [Piece(False, f'"{self.take().text}"', token.before)][: 1 if self.take() else 0]
            return [Piece(False, f"`{token.text}`" if token.kind == "code" else token.text, token.before)]
        if token.text == "(" and token.before and not inside and self.is_prose(1) and not self.is_raised():
            self.take()
            within = self.pieces(closing=True, inside=False)
            self.take()
            return [Piece(False, "(", True), within[0]._replace(before=False), *within[1:], Piece(False, ")", False)]
        if token.text in ";:" and not inside:
            return [Piece(False, self.take().text, token.before)]
        if token.text in ",." and token.kind == "sign" and not self.is_product():
            self.take()
            between = token.text == "," and bool(last) and last[0].math and not self.is_prose()
            return [Piece(inside or between, token.text, token.before)]
        return [Piece(True, self.atom(), token.before)]

    def is_raised(self) -> bool:
        """Return whether the group that comes next has an exponent."""
        depth, place = 1, 1
        while depth and self.peek(place).kind != "end":
            depth += (self.peek(place).text == "(") - (self.peek(place).text == ")")
            place += 1
        return self.peek(place).text == "^"

    def is_product(self) -> bool:
        """Return whether a full stop stands for a product, or for an argument."""
        last, token, following = self.peek(-1), self.peek(), self.peek(1)
        if token.text != ".":
            return False
        spaced = token.before and token.after and following.kind != "end"
        tight = not token.before and not token.after and following.text not in ("", *"]};")
        return spaced or tight or (last.text == "," and following.text == ")")

    def is_prose(self, ahead: int = 0) -> bool:
        """Return whether a token is a word of the text."""
        token, following = self.peek(ahead), self.peek(ahead + 1)
        if token.kind in TEXT or token.text == '"':
            return True
        if token.text in AMBIGUOUS:
            return following.text in (*".,;:)", "") or (following.kind != "sign" and self.is_prose(ahead + 1))
        if token.text == "a":
            return self.is_article(ahead)
        if token.text in ("in", "not", "hat"):
            return not self.is_relation(ahead)
        attached = following.text in ("_", "^", "(") and not following.before
        return token.kind == "word" and not is_math(token.text) and not attached

    def is_article(self, ahead: int) -> bool:
        """Return whether an "a" is an article."""
        following = self.peek(ahead + 1)
        if following.kind == "number":
            return self.peek(ahead + 2).text == "%"
        noun = following.before and following.text not in NO_NOUNS and following.kind in ("word", *TEXT)
        return noun and self.is_prose(ahead + 1)

    def is_relation(self, ahead: int) -> bool:
        """Return whether "in" or "not in" stands between mathematics, or "hat" before it."""
        word, following = self.peek(ahead).text, self.peek(ahead + 1)
        if word == "hat":
            return following.kind == "word"
        if word == "not":
            return following.text == "in" and self.is_relation(ahead + 1)
        last = self.peek(ahead - (2 if self.peek(ahead - 1).text == "not" else 1)).text
        is_set = following.text[:1].isupper() or following.text == "kappa" or following.text in OPEN
        return last != "" and (is_math(last) or last in CLOSE) and is_set

    def group(self) -> str:
        """Return what is between brackets, without them."""
        self.take()
        inner = joined_math(self.pieces(closing=True))
        self.take()
        return inner

    def atom(self) -> str:
        """Return the next factor or sign as TeX, with what is attached to it."""
        text = self.special() or self.plain()
        below, above = "", ""
        while (mark := self.peek()).text in ("_", "^", "'", "*", "~", "!") and not mark.before and mark.kind == "sign":
            self.take()
            if mark.text == "_":
                below += self.index()
            elif mark.text == "!":
                text += "!"
            elif mark.text == "~":
                text = rf"\tilde {text}"
            else:
                above += {"'": r"\prime ", "*": "*"}.get(mark.text) or self.exponent()
        prime, power = re.fullmatch(r"((?:\\prime )*)(.*)", above, re.DOTALL).groups()  # type: ignore[union-attr]
        text += f"_{{{below}}}" if below else ""
        if prime and power and power != r"\top ":
            text, above = f"{{{text}^{{{prime}}}}}", power
        return text + (f"^{{{above}}}" if above else "")

    def special(self) -> str | None:
        """Return a root, a binomial coefficient, a rounding, a hat, an indicator or an expectation; None for others."""
        token, following = self.peek(), self.peek(1)
        tight = not following.before
        if token.text == "not":
            self.place += 2
            return r"\notin "
        if token.text == "E" and self.is_expectation():
            self.take()
            return r"\mathbb{E}"
        marks = {"ceil": "(", "floor": "(", "C": "(", "1": "{[", "sqrt": following.text, "hat": following.text}
        if (
            token.text not in marks
            or (not tight and token.text in "C1")
            or following.text not in (*marks[token.text], marks[token.text])
        ):
            return None
        return self.marked(self.take().text)

    def marked(self, name: str) -> str:
        """Return what a root, a rounding, a hat, an indicator or a C stands before."""
        if name == "sqrt":
            return rf"\sqrt{{{self.radicand()}}}"
        if name == "hat":
            base = self.take().text
            return rf"\widehat{{{NAMED[base]}}}" if base in NAMED else rf"\hat {base}"
        if name == "C":
            return self.binomial()
        return r"\mathbf{1}" + self.plain() if name == "1" else rf"\l{name} {self.group()} \r{name} "

    def is_expectation(self) -> bool:
        """Return whether an E is an expectation, by what follows."""
        place = 1
        if self.peek(1).text == "_":
            place = 3
            if self.peek(2).text == "{":
                while self.peek(place - 1).text != "}":
                    place += 1
        following = self.peek(place)
        if place > 1:
            return following.text in ("[", "|", "||", "min", "(")
        return following.text in ("[", "|", "||", "psi", "l", "g", "a", "exp")

    def radicand(self) -> str:
        """Return what is under a root."""
        if self.peek().text == "(":
            return self.group()
        if self.peek().text == "|":
            text = [self.plain()]
            while self.peek().text != "|":
                text.append(self.atom())
            return "".join([*text, self.plain()])
        return self.plain()

    def binomial(self) -> str:
        """Return a binomial coefficient, or a function C of other arguments."""
        self.take()
        inner = self.pieces(closing=True)
        self.take()
        commas = [place for place, piece in enumerate(inner) if piece.text.strip() == ","]
        if len(commas) != 1:
            return f"C({joined_math(inner)})"
        return rf"\binom{{{joined_math(inner[: commas[0]])}}}{{{joined_math(inner[commas[0] + 1 :])}}}"

    def plain(self) -> str:
        """Return the next token, or the group that it opens, as TeX."""
        token = self.peek()
        if token.text and token.text in OPEN:
            return self.bracketed()
        self.take()
        if token.kind == "number":
            return number(token.text)
        if token.kind == "word":
            return self.word(token)
        return SIGNS.get(token.text, token.text)

    def bracketed(self) -> str:
        """Return a group with its brackets."""
        first = self.take().text
        inner = joined_math(self.pieces(closing=True))
        last = self.take().text
        brackets = {"{": r"\{", "}": r"\}"}
        return f"{brackets.get(first, first)}{inner}{brackets.get(last, last)}"

    def word(self, token: Token) -> str:
        """Return a word of mathematics as TeX."""
        text = token.text
        if text == "x" and self.peek(-2).kind == "number" and self.peek().kind == "number":
            return r"\times "
        if text == "in":
            return r"\in "
        if text in ("inf", "sup") and self.peek().text in ("_", "{"):
            return "\\" + text + " "
        return symbol(text)

    def exponent(self) -> str:
        """Return what is raised."""
        sign = ""
        if self.peek().text in ("-", "+"):
            sign = self.take().text
        if self.peek().text in ("(", "{"):
            round_ = self.peek().text == "("
            kept = round_ and (sign or self.peek(2).text == ")")
            inner = self.group()
            return sign + (f"({inner})" if kept else {"-T": r"-\top", "-T ": r"-\top"}.get(inner, inner))
        if self.peek().text == "|":
            return sign + self.between_bars()
        raised = self.plain_index(self.peek())
        return sign + (r"\top " if raised == "T" and not sign else raised)

    def plain_index(self, token: Token) -> str:
        """Return a number or a word above or below the line."""
        self.take()
        if token.kind == "number":
            return number(token.text)
        if token.text in SUBSCRIPTS:
            return SUBSCRIPTS[token.text]
        if token.text[:-2] == "c":
            return symbol(token.text)
        letters = token.text.rstrip("0123456789")
        if token.text in UPRIGHT or (len(letters) > 3) or (token.text != letters and len(letters) <= 2):
            return rf"\mathrm{{{token.text}}}"
        return " ".join(token.text) if token.text.isalpha() else token.text

    def index(self) -> str:
        """Return what is below the line."""
        if self.peek().text in ("(", "{"):
            return self.group()
        if self.peek().text in ("|", "||"):
            return self.between_bars()
        if self.peek().text in ":-":
            return self.take().text + self.plain_index(self.peek())
        first = self.plain_index(self.peek())
        while self.peek().kind in ("word", "number") and not self.peek().before:
            first += self.plain_index(self.peek())
        return first

    def between_bars(self) -> str:
        """Return what is between bars, with them."""
        text = self.plain()
        while self.peek().text not in ("|", "||"):
            text += self.atom()
        return text + self.plain()


def is_math(word: str) -> bool:
    """Return whether a word is a symbol."""
    letters = word.rstrip("0123456789")
    return (
        len(word) == 1
        or word in WORDS
        or word in ("sqrt", "ceil", "floor")
        or (letters != word and (len(letters) < 3 or letters in WORDS))
    )


def symbol(word: str) -> str:
    """Return a symbol as TeX, digits at its end as an index."""
    letters = word.rstrip("0123456789")
    digits = word[len(letters) :]
    shown = WORDS.get(letters, letters if len(letters) < 2 else rf"\mathrm{{{letters}}}")
    shown += " " if shown.startswith("\\") and shown[-1].isalpha() else ""
    return shown.strip() + f"_{{{digits}}}" if digits else shown


def number(text: str) -> str:
    """Return a number as TeX."""
    mantissa, _, power = text.partition("e")
    if not power:
        return text
    return f"10^{{{power}}}" if mantissa == "1" else rf"{mantissa} \times 10^{{{power}}}"


def joined_math(pieces: list[Piece]) -> str:
    """Return the parts of a group as one piece of TeX."""
    text = ""
    for place, piece in enumerate(pieces):
        if piece.math:
            text += piece.text
            continue
        before = " " if place and (piece.before or pieces[place - 1].math) else ""
        after = " " if place + 1 < len(pieces) and pieces[place + 1].math else ""
        text += rf"\text{{{before}{piece.text.strip('`').replace('_', chr(92) + '_')}{after}}}"
    return text


def typeset(formula: str, code: Callable[[str], str] = lambda name: f"<code>{name}</code>") -> str:
    r"""Return a formula as HTML, its mathematics as TeX between ``\(`` and ``\)``.

    Args:
        formula: the formula in plain characters.
        code: returns a name in backquotes as HTML.

    Raises:
        ValueError: brackets do not match.
    """
    shown, run = "", ""
    for piece in [*Parser(formula.strip()).pieces(), Piece(False, "", False)]:
        if piece.math:
            shown += " " if not run and piece.before and shown else ""
            run += (" " if run and piece.before else "") + (r",\ " if piece.text == "," else piece.text)
            continue
        inner = run.removesuffix(r",\ ")
        shown += f'<span class="arithmatex">\\({escape(inner.strip(), quote=False)}\\)</span>' if inner else ""
        shown += "," if inner != run else ""
        run = ""
        shown += " " if piece.before and shown else ""
        shown += code(piece.text[1:-1]) if piece.text[:1] == "`" else escape(piece.text, quote=False)
    return shown
