"""Re-judge committed evidence by the current rules."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from elegans.errors import ClaimError, brief
from elegans.experiments.claims import judge
from elegans.experiments.evidence import Evidence, collected, write
from elegans.experiments.registry import find

TOLERANCE = 1e-5
"""The relative difference that another machine's arithmetic can cause between two numbers of six digits."""


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
        """The differences in the verdict and its numbers, in words; empty if the rule was only rewritten."""
        if self.now is None:
            return []
        changed = (("verdict", self.before["verdict"], self.now["verdict"]),)
        pairs = [*changed, *_pairs(self.before["numbers"], self.now["numbers"])]
        return [f"{name}: {old} before, {new} now" for name, old, new in pairs if not _same(old, new)]


def rejudge(claim: str | None = None, study: str | None = None) -> Iterator[Rejudged]:
    """Re-judge committed evidence by the current rules, and yield each verdict.

    Args:
        claim: the id of the only claim to judge; all claims by default.
        study: the name of the only study to judge; all studies by default.
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
        return Rejudged(evidence, name, before, None, "a verdict must belong to a claim of its experiment")
    try:
        return Rejudged(evidence, name, before, judge([claim], evidence.tables)[name])
    except ClaimError as error:
        return Rejudged(evidence, name, before, None, str(error))
    except Exception as error:  # whatever a rule raises on tables that its experiment has not made
        said = f"the tables of a claim must be those of its experiment: {type(error).__name__}: {brief(str(error))}"
        return Rejudged(evidence, name, before, None, said)


def keep_rejudged(found: Sequence[Rejudged], reason: str) -> None:
    """Write new verdicts into the evidence that they were judged from.

    Where a verdict or a number differs, its list ``rejudged`` gets the date, the reason and the differences.

    Raises:
        ClaimError: a verdict or a number differs and no reason is given.
    """
    if any(one.differences for one in found) and not reason.strip():
        raise ClaimError("a reason must be given to keep verdicts that differ: reason=''")
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
    """Yield the name and both values of each deciding number, however deeply nested."""
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
