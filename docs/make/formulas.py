"""Formulas of claims, which the terminal shows in plain characters, as HTML."""

import re

LETTERS = "alpha beta gamma delta epsilon zeta eta theta kappa lambda mu nu xi pi rho sigma tau phi chi psi omega "
LETTERS += "Gamma Delta Theta Lambda Sigma Phi Psi Omega"
GREEK = dict(zip(LETTERS.split(), "αβγδεζηθκλμνξπρστφχψωΓΔΘΛΣΦΨΩ", strict=True))
INSIDE = r"\(((?:[^()]|\([^()]*\))*)\)"
"""Parentheses and what is between them, at most one more pair deep."""


def formatted(text: str) -> str:
    """Return a statement, escaped for HTML, with Greek letters, roots, powers and indices set as such."""
    letters = r"(?<!\w)\(xi\)|(?<![A-Za-z])(" + "|".join(GREEK) + r")(?![A-Za-z])"  # setting (xi) is the eleventh
    text = re.sub(letters, lambda found: GREEK[found[1]] if found[1] else found[0], text)
    text = re.sub(r"sqrt\((\w+)\)(?![\w^])", r"√\1", text)
    text = text.replace("sqrt", "√").replace("&lt;=", "≤").replace("&gt;=", "≥").replace("||", "‖")
    text = re.sub(rf"\^((?:max|min|[OΩ]){INSIDE}|-{INSIDE})", r"<sup>\1</sup>", text)
    text = re.sub(rf"\^{INSIDE}", r"<sup>\1</sup>", text)
    text = re.sub(r"\^\{([^}]*)\}", r"<sup>\1</sup>", text)
    text = re.sub(r"\^(-?\d+(?:\.\d+)?|\w)", r"<sup>\1</sup>", text)
    text = re.sub(rf"(?<=[\w‖])_(?:{INSIDE}|\{{([^}}]*)\}})", lambda found: f"<sub>{found[1] or found[2]}</sub>", text)
    text = re.sub(r"(?<![\w/])(\w|grad|‖)_(\w+)", r"\1<sub>\2</sub>", text)
    text = re.sub(r"‖_(\w)", r"‖<sub>\1</sub>", text.replace("‖_inf", "‖<sub>∞</sub>"))
    text = re.sub(r"(?<=[\w)>|]) - (?=[\w(√‖])", " − ", text)  # noqa: RUF001
    return re.sub(r"(?<![\w.)\]-])-(?=[\d(])", "−", text)  # noqa: RUF001
