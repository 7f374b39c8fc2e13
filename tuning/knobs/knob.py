"""The row type of a knob."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from tuning.finding import Finding, Means, Remedy, Severity
from tuning.situation import Situation

Subject = TypeVar("Subject")


@dataclass(frozen=True, slots=True)
class Want:
    """A knob's judgement of its value. proposed: "" to leave it. because: of this host, added to
    the row's why. remedy: "" for none; a proposal of a host-wide sysctl needs none, its row makes
    it."""

    severity: Severity
    proposed: str = ""
    because: str = ""
    remedy: Remedy | None = None


FINE = Want(Severity.OK)


def unless(fine: str, want: Want) -> Callable[[Situation, object, str], Want]:
    """Judgement of a knob with one good value: `want` for every host with a different value."""
    return lambda _, __, now: FINE if now == fine else want


@dataclass(frozen=True, slots=True)
class Knob(Generic[Subject]):
    """name: a sysctl's, or words. subjects: what it belongs to, each with a label ("" is the host
    itself).

    read: value as text, None when it cannot be seen here. want: given that text. why: what the
    value does, one sentence. source: the document or the measurement that it comes from.
    """

    name: str
    subjects: Callable[[Situation], Sequence[tuple[str, Subject]]]
    read: Callable[[Situation, Subject], str | None]
    want: Callable[[Situation, Subject, str], Want]
    why: str
    source: str

    def look(self, situation: Situation) -> list[Finding]:
        """A finding for each subject."""
        return [self._one(situation, label, subject) for label, subject in self.subjects(situation)]

    def _one(self, situation: Situation, label: str, subject: Subject) -> Finding:
        name = f"{label}: {self.name}" if label else self.name
        now = self.read(situation, subject)
        if now is None:
            return Finding(name, Severity.UNSEEN, "", "", "cannot be seen here", self.source)
        want = self.want(situation, subject, now)
        why = f"{self.why} {want.because}".strip()
        return Finding(name, want.severity, now, want.proposed, why, self.source, want.remedy)


def whole_host(_: Situation) -> Sequence[tuple[str, None]]:
    """The subject of knobs that a host has once."""
    return (("", None),)


def sysctl(
    name: str, want: Callable[[Situation, str], tuple[Severity, str, str]], why: str, source: str
) -> Knob[None]:
    """A row for a sysctl. want: severity, proposed value ("" leaves it) and what is special
    here."""

    def judge(situation: Situation, _: None, now: str) -> Want:
        severity, proposed, because = want(situation, now)
        remedy = Remedy(Means.SYSCTL, name, proposed, now) if proposed else None
        return Want(severity, proposed, because, remedy)

    return Knob(name, whole_host, lambda situation, _: situation.host.sysctl(name), judge, why, source)


def by_hand(what: str) -> Remedy:
    """A remedy in words."""
    return Remedy(Means.HAND, what)
