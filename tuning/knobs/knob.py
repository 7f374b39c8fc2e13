"""The row type of a knob."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from tuning.finding import Finding, Means, Remedy, Severity
from tuning.situation import Situation

Subject = TypeVar("Subject")


@dataclass(frozen=True, slots=True)
class Assessment:
    """A knob's assessment of its value. proposed: the better value, "" to leave it. because: the
    reason on this host, added to the row's why. remedy: None if there is none, or if the row of a
    host-wide sysctl makes it."""

    severity: Severity
    proposed: str = ""
    because: str = ""
    remedy: Remedy | None = None


FINE = Assessment(Severity.OK)


def unless(fine: str, other: Assessment) -> Callable[[Situation, object, str], Assessment]:
    """Assess a knob with one good value: `other` for every host with a different value."""
    return lambda _, __, now: FINE if now == fine else other


@dataclass(frozen=True, slots=True)
class Knob(Generic[Subject]):
    """name: of a sysctl, or words. subjects: (label, disk, mount, interface, ...) of each thing
    that has the knob; the label "" is the host itself.

    read: the value as text, None if it is not visible. assess: called with that text. why: the
    effect of the value, one sentence. source: a document or a measurement.
    """

    name: str
    subjects: Callable[[Situation], Sequence[tuple[str, Subject]]]
    read: Callable[[Situation, Subject], str | None]
    assess: Callable[[Situation, Subject, str], Assessment]
    why: str
    source: str

    def findings(self, situation: Situation) -> list[Finding]:
        """A finding for each subject."""
        return [self._one(situation, label, subject) for label, subject in self.subjects(situation)]

    def _one(self, situation: Situation, label: str, subject: Subject) -> Finding:
        name = f"{label}: {self.name}" if label else self.name
        now = self.read(situation, subject)
        if now is None:
            return Finding(name, Severity.UNSEEN, "", "", "cannot be seen here", self.source)
        found = self.assess(situation, subject, now)
        why = f"{self.why} {found.because}".strip()
        return Finding(name, found.severity, now, found.proposed, why, self.source, found.remedy)


def whole_host(_: Situation) -> Sequence[tuple[str, None]]:
    """The subject of a knob that a host has once."""
    return (("", None),)


def sysctl(
    name: str, assess: Callable[[Situation, str], tuple[Severity, str, str]], why: str, source: str
) -> Knob[None]:
    """A row for a sysctl. assess: called with the value; returns severity, proposed value (""
    leaves it) and the reason on this host."""

    def with_remedy(situation: Situation, _: None, now: str) -> Assessment:
        severity, proposed, because = assess(situation, now)
        remedy = Remedy(Means.SYSCTL, name, proposed, now) if proposed else None
        return Assessment(severity, proposed, because, remedy)

    return Knob(name, whole_host, lambda situation, _: situation.host.sysctl(name), with_remedy, why, source)


def by_hand(what: str) -> Remedy:
    """A remedy in words."""
    return Remedy(Means.HAND, what)
