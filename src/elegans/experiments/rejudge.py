"""Judging committed evidence again by the current rules."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from elegans.errors import ClaimError
from elegans.experiments.claims import judge
from elegans.experiments.evidence import Evidence, collected, write
from elegans.experiments.registry import find

TOLERANCE = 1e-5
"""The relative difference of two numbers of six digits that another machine's arithmetic can make."""


@dataclass(frozen=True)
class Rejudged:
    """A verdict that was judged again.

    Args:
        evidence: what it rests on.
        claim: the claim's id.
        before: the verdict as it is kept.
        now: the verdict by the current rule, or None where it cannot be judged.
        refusal: why it cannot be judged.
    """

    evidence: Evidence
    claim: str
    before: Mapping[str, Any]
    now: Mapping[str, Any] | None
    refusal: str = ""

    @property
    def differences(self) -> list[str]:
        """What differs, in words: the verdict and its numbers; nothing for a rule that is only written anew."""
        if self.now is None:
            return []
        changed = (("verdict", self.before["verdict"], self.now["verdict"]),)
        pairs = [*changed, *_pairs(self.before["numbers"], self.now["numbers"])]
        return [f"{name}: {old} before, {new} now" for name, old, new in pairs if not _same(old, new)]


def rejudge(claim: str | None = None, study: str | None = None) -> Iterator[Rejudged]:
    """Judge committed evidence again by the current rules, and yield each verdict.

    Args:
        claim: only this claim, by its id.
        study: only the evidence of this study.
    """
    for evidence in collected():
        ids = [one for one in evidence.verdicts if claim in (None, one)]
        if ids and study in (None, evidence.content["study"]):
            experiment = find(evidence.experiment).having(evidence.content["options"])
            current = {one.id: one for one in experiment.claims}
            for one in ids:
                yield _rejudged(evidence, one, current.get(one))


def _rejudged(evidence: Evidence, name: str, claim: Any) -> Rejudged:
    before = evidence.verdicts[name]
    if claim is None:
        return Rejudged(evidence, name, before, None, "a verdict must be of a claim that its experiment has")
    try:
        return Rejudged(evidence, name, before, judge([claim], evidence.tables)[name])
    except ClaimError as error:
        return Rejudged(evidence, name, before, None, str(error))


def keep_rejudged(found: Sequence[Rejudged], reason: str) -> None:
    """Write verdicts that were judged again into their evidence.

    Where the verdict or a number differs, the verdict's list ``rejudged`` gets the date, the reason and what differs.

    Raises:
        ClaimError: something differs and there is no reason.
    """
    if any(one.differences for one in found) and not reason.strip():
        raise ClaimError("verdicts that differ must be kept with a reason: reason=''")
    for path in {one.evidence.path for one in found}:
        own = [one for one in found if one.evidence.path == path and one.now is not None]
        verdicts = dict(own[0].evidence.verdicts) if own else {}
        for one in own:
            trail = list(one.before.get("rejudged", ()))
            if one.differences:
                date = datetime.now(UTC).date().isoformat()
                trail.append({"date": date, "reason": reason.strip(), "differences": one.differences})
            verdicts[one.claim] = {**(one.now or {}), **({"rejudged": trail} if trail else {})}
        if own and verdicts != own[0].evidence.verdicts:
            write(path, {**own[0].evidence.content, "verdicts": verdicts})


def _pairs(before: Any, now: Any, name: str = "numbers") -> Iterator[tuple[str, Any, Any]]:
    """Yield the name and both values of each deciding number, in any nesting."""
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for key in dict.fromkeys((*before, *now)):
            yield from _pairs(before.get(key), now.get(key), f"{name}.{key}")
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for place, (old, new) in enumerate(zip(before, now, strict=True)):
            yield from _pairs(old, new, f"{name}[{place}]")
    else:
        yield name, before, now


def _same(before: Any, now: Any) -> bool:
    both = [isinstance(value, int | float) and not isinstance(value, bool) for value in (before, now)]
    return math.isclose(before, now, rel_tol=TOLERANCE) if all(both) else before == now
