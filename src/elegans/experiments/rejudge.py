"""Re-judge committed evidence by the current rules."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from elegans.errors import ClaimError, brief
from elegans.experiments.claims import judge
from elegans.experiments.evidence import FRESH, Evidence, collected, write
from elegans.experiments.registry import find

TOLERANCE, ROUNDING = 1e-5, 1e-15
"""The relative difference that another machine's arithmetic can cause between two numbers of six digits, and the
difference that it can cause where numbers near 1 cancel."""


@dataclass(frozen=True)
class Rejudged:
    """A verdict and what the current rule makes of it.

    Args:
        evidence: the evidence that the verdict rests on.
        claim: the claim's id.
        before: the verdict stored in the evidence.
        now: the verdict by the current rule, or None if the claim cannot be judged.
        refusal: why the claim cannot be judged; empty if it can.
    """

    evidence: Evidence
    claim: str
    before: Mapping[str, Any]
    now: Mapping[str, Any] | None
    refusal: str = ""

    @property
    def differences(self) -> list[str]:
        """What differs in verdict, error rate and numbers, in words; empty if the rule was only rewritten."""
        if self.now is None:
            return []
        changed = [(name, self.before[name], self.now[name]) for name in ("verdict", "error_rate")]
        pairs = [*changed, *_pairs(self.before["numbers"], self.now["numbers"])]
        return [f"{name}: {old} before, {new} now" for name, old, new in pairs if not _same(old, new)]


def rejudge(claim: str | None = None, study: str | None = None) -> Iterator[Rejudged]:
    """Re-judge committed evidence by the current rules, evidence on fresh seeds too, and yield each verdict.

    Args:
        claim: the id of the only claim to judge; all claims by default.
        study: the name of the only study to judge; all studies by default.
    """
    for evidence in (*collected(), *collected(FRESH)):
        verdicts = {name: verdict for name, verdict in evidence.verdicts.items() if claim in (None, name)}
        if not verdicts or study not in (None, evidence.study):
            continue
        experiment = find(evidence.experiment).with_options(evidence.content["options"])
        current = {claim.id: claim for claim in experiment.claims}
        for name, before in verdicts.items():
            now, refusal = None, ""
            try:
                now = judge([current[name]], evidence.tables)[name] if name in current else None
                refusal = "" if now else "a verdict must belong to a claim of its experiment"
            except ClaimError as error:
                refusal = str(error)
            except Exception as error:  # whatever a rule raises on tables that its experiment has not made
                reason = f"{type(error).__name__}: {brief(str(error))}"
                refusal = f"a claim needs the tables of its experiment: {reason}"
            yield Rejudged(evidence, name, before, now, refusal)


def keep_rejudged(judged: Sequence[Rejudged], reason: str) -> None:
    """Write new verdicts into the evidence that they were judged from.

    Where a verdict or a number differs, its list ``rejudged`` gets the date, the reason and the differences.

    Raises:
        ClaimError: a verdict or a number differs and no reason is given.
    """
    if any(verdict.differences for verdict in judged) and not reason.strip():
        raise ClaimError("a reason must be given to keep verdicts that differ: reason=''")
    evidence = {verdict.evidence.path: verdict.evidence for verdict in judged}
    for path, piece in evidence.items():
        verdicts = dict(piece.verdicts)
        for verdict in judged:
            if verdict.evidence.path != path or verdict.now is None:
                continue
            trail = list(verdict.before.get("rejudged", ()))
            if verdict.differences:
                date = datetime.now(UTC).date().isoformat()
                trail.append({"date": date, "reason": reason.strip(), "differences": verdict.differences})
            verdicts[verdict.claim] = {**verdict.now, **({"rejudged": trail} if trail else {})}
        if verdicts != piece.verdicts:
            write(path, {**piece.content, "verdicts": verdicts})


def _pairs(before: Any, now: Any, name: str = "numbers") -> Iterator[tuple[str, Any, Any]]:
    """Yield the name and both values of each deciding number, however deeply nested."""
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for key in dict.fromkeys((*before, *now)):
            yield from _pairs(before.get(key), now.get(key), f"{name}.{key}")
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for index, (old, new) in enumerate(zip(before, now, strict=True)):
            yield from _pairs(old, new, f"{name}[{index}]")
    else:
        yield name, before, now


def _same(before: Any, now: Any) -> bool:
    numeric = all(isinstance(value, int | float) and not isinstance(value, bool) for value in (before, now))
    return math.isclose(before, now, rel_tol=TOLERANCE, abs_tol=ROUNDING) if numeric else before == now
