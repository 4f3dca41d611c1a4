"""What a run says about its own settings, and the one place where changes of them are advised.

A finding is an answer that may come with *remedies*, the best one first. `Findings` takes the first
that agrees with all that was advised before: a setting is never moved both ways, and never to two
values. What was advised first stands, so findings are added by their weight.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

Severity = Literal["attention", "neutral", "good"]


@dataclass(frozen=True)
class Change:
    """A setting, as `--set` names it, from its value in the recipe to the one advised."""

    setting: str
    before: int | float
    after: int | float

    @property
    def raises(self) -> bool:
        """Which way?"""
        return self.after > self.before

    def __str__(self) -> str:
        return f"--set {self.setting}={self.after:g}"


@dataclass(frozen=True)
class Remedy:
    """What would help, in words, and the changes it takes, which belong together."""

    words: str
    changes: tuple[Change, ...] = ()


@dataclass(frozen=True)
class Finding:
    """One answer: what was asked, the measured figure, and advice if something should change.

    `judged_on` names the test examples, and what to choose settings on instead, if it took them.
    """

    question: str
    figure: float | None
    verdict: Severity
    text: str
    changes: tuple[Change, ...] = ()
    judged_on: str = ""

    @property
    def options(self) -> str:
        """The changes, as the command line takes them."""
        return " ".join(map(str, self.changes))

    def extended(self, more: str, verdict: Severity = "neutral") -> Finding:
        """The same with more to say, and another verdict."""
        return replace(self, verdict=verdict, text=self.text + more)


class Findings(list[Finding]):
    """Findings whose advice agrees.

    Args:
        known: Findings that were told before.
        settable: Can settings be changed at all? If not, only remedies without changes are advised.
    """

    def __init__(self, known: Iterable[Finding] = (), *, settable: bool = True) -> None:
        super().__init__(known)
        self._settable = settable

    def add(self, finding: Finding, *remedies: Remedy | None) -> None:
        """Take a finding in; one that wants attention is advised a remedy, or nothing is wanted."""
        if finding.verdict == "attention":
            offered = [r for r in remedies if r is not None and (self._settable or not r.changes)]
            finding = self._repeated(finding, offered) or self._advised(finding, offered)
        self.append(finding)

    def _repeated(self, finding: Finding, remedies: Iterable[Remedy]) -> Finding | None:
        """The finding with a remedy that another one has been advised already."""
        for remedy in remedies:
            told = [self._told(change) for change in remedy.changes]
            if told and all(same and same[1] for same in told):
                names = dict.fromkeys(same[0].question for same in told if same)
                return finding.extended(f"; {remedy.words} (see {', '.join(names)})", "attention")
        return None

    def _advised(self, finding: Finding, remedies: Iterable[Remedy]) -> Finding:
        """The finding with the first remedy that touches nothing which was advised."""
        against: dict[str, None] = {}
        for remedy in remedies:
            told = [same[0].question for c in remedy.changes if (same := self._told(c))]
            if not told:
                advised = finding.extended(f"; {remedy.words}", "attention")
                return replace(advised, changes=remedy.changes)
            against |= dict.fromkeys(told)
        return finding.extended(f"; see {', '.join(against)} first" if against else "")

    def _told(self, change: Change) -> tuple[Finding, bool] | None:
        """Who was advised to change the same setting, and whether in the same direction."""
        for finding in self:
            for other in finding.changes:
                if other.setting == change.setting:
                    return finding, other.raises == change.raises
        return None
