"""Decided claims on fresh seeds: whether runs on seeds that no rule has seen give the same verdicts."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from elegans.experiments.evidence import FRESH, Evidence, collected, verdict_of
from elegans.experiments.registry import ClaimEntry, claims
from elegans.experiments.words import CORRECTED, FAILS, HOLDS, UNDECIDED

FIRST_SEED = 1_000_000
"""The first fresh seed, above the seeds of all evidence; a run in place of another begins that much higher."""


@dataclass(frozen=True)
class FreshVerdict:
    """A decided claim with its verdict on fresh seeds.

    Args:
        claim: the claim's id.
        evidence: the evidence for its verdict.
        verdict: its verdict on that evidence.
        fresh: its verdict on fresh seeds, in the form of a record.
    """

    claim: str
    evidence: Evidence
    verdict: str
    fresh: Mapping[str, Any]

    @property
    def agrees(self) -> bool:
        """Whether the verdicts are the same."""
        return bool(self.fresh["verdict"] == self.verdict)

    @property
    def opposite(self) -> bool:
        """Whether one verdict is *holds*, with or without correction, and the other *fails*."""
        pair = {HOLDS if word == CORRECTED else word for word in (self.verdict, self.fresh["verdict"])}
        return pair == {HOLDS, FAILS}


def decided(of: Iterable[ClaimEntry] | None = None) -> list[tuple[Evidence, list[str]]]:
    """Return each piece of evidence whose trials or draws decided claims, with these; least time per claim first.

    A verdict that rests on neither has no error rate.

    Args:
        of: the claims; all by default.
    """
    found: dict[str, tuple[Evidence, list[str]]] = {}
    for claim in claims().values() if of is None else of:
        evidence, verdict = verdict_of(claim.id) or (None, {})
        if evidence and verdict["verdict"] != UNDECIDED and verdict["error_rate"] > 0:
            found.setdefault(str(evidence.path), (evidence, []))[1].append(claim.id)
    return sorted(found.values(), key=lambda pair: pair[0].seconds / len(pair[1]))


def missing(of: Iterable[ClaimEntry] | None = None) -> list[tuple[Evidence, list[str]]]:
    """Return the pairs of ``decided`` that have no run on fresh seeds, or one that no longer serves.

    A run no longer serves if it has fewer trials than the evidence, if it was judged by another version of a rule, or
    if it is older and lacks trials that a rule asks for: the experiment has had other cells since.
    """
    fresh = _runs()
    return [(one, names) for one, names in decided(of) if not _serves(fresh.get(one.path.name), one, names)]


def _runs() -> dict[str, Evidence]:
    """Return the evidence of runs on fresh seeds, by the name of its file."""
    return {one.path.name: one for one in collected(FRESH)}


def _serves(fresh: Evidence | None, evidence: Evidence, names: Iterable[str]) -> bool:
    if fresh is None or fresh.content["record"]["trials"] < evidence.content["record"]["trials"]:
        return False
    if any(fresh.verdicts[name]["rule"] != evidence.verdicts[name]["rule"] for name in names):
        return False
    older = fresh.content["record"]["date"] < evidence.content["record"]["date"]
    verdicts = [fresh.verdicts[name] for name in names]
    return not older or all(each["verdict"] != UNDECIDED or each["numbers"] for each in verdicts)


def first_seed(evidence: Evidence) -> int:
    """Return the first seed of the next run on fresh seeds: no run has had one of its seeds."""
    earlier = _runs().get(evidence.path.name)
    return FIRST_SEED + (earlier.content["record"]["first_seed"] if earlier else 0)


def compared() -> Iterator[FreshVerdict]:
    """Yield each claim that trials or draws have decided and whose experiment has been run again on fresh seeds."""
    fresh = _runs()
    for evidence, names in decided():
        again = fresh.get(evidence.path.name)
        if again is not None:
            for name in names:
                yield FreshVerdict(name, evidence, evidence.verdicts[name]["verdict"], again.verdicts[name])
