"""A finding about one knob: current value, proposed value, reason, and how to apply and undo it."""

import re
from dataclasses import asdict, dataclass
from enum import Enum

from tuning.quantity import show_bytes


class Severity(Enum):
    """SERIOUS: breaks something or loses data under load. ADVICE: an improvement. NOTE:
    information. UNSEEN: cannot be read here."""

    SERIOUS = "serious"
    ADVICE = "advice"
    NOTE = "note"
    OK = "ok"
    UNSEEN = "unseen"


class Means(Enum):
    """The part of the host that a remedy changes, which decides who applies it."""

    SYSCTL = "sysctl"  # target: name, as in sysctl -w
    SYSFS = "sysfs"  # target: path below /sys
    MOUNT = "mount"  # target: mount point; values: options
    PROPERTY = "property"  # target: key of the broker's properties file
    LIMIT = "limit"  # target: directive of the systemd unit
    HAND = "hand"  # target: what to do, in words


@dataclass(frozen=True, slots=True)
class Remedy:
    """One change. target: see Means. new, old: values as they are written; old "" when there was
    none.

    old_target: where `old` is written when it is not `target` (bytes that replace a ratio).
    """

    means: Means
    target: str
    new: str = ""
    old: str = ""
    old_target: str = ""

    @property
    def apply(self) -> str:
        """The command, the property or the words."""
        return self._line(self.target, self.new)

    @property
    def undo(self) -> str:
        """The command that reverts it; empty if there is none."""
        if self.means is Means.HAND:
            return ""
        if not self.old:
            return f"remove {self.target}"
        return self._line(self.old_target or self.target, self.old)

    def _line(self, target: str, value: str) -> str:
        match self.means:
            case Means.SYSCTL:
                return f"sysctl -w {target}={_quoted(value)}"
            case Means.SYSFS:
                return f"echo {_quoted(value)} > /sys/{target}"
            case Means.MOUNT:
                return f"mount -o remount,{value} {target}"
            case Means.PROPERTY | Means.LIMIT:
                return f"{target}={value}"
            case Means.HAND:
                return target


def _quoted(value: str) -> str:
    return f"'{value}'" if " " in value else value


# Knobs whose numbers are bytes, by how their names end or what they are called.
_BYTES = re.compile(r"(bytes|[rw]mem_(max|default)|tcp_[rw]mem)$|^dirty limit|huge pages$")
SMALL = 1000  # below it a number is shown as it is: -1 and 0 have meanings of their own


def _shown(knob: str, value: str) -> str:
    words = value.split()
    if not (words and _BYTES.search(knob) and all(word.isdecimal() for word in words)):
        return value
    return ", ".join(show_bytes(int(word)) if int(word) >= SMALL else word for word in words)


@dataclass(frozen=True, slots=True)
class Finding:
    """knob: its name, with what it belongs to (`vda: queue/scheduler`). now, proposed: as text;
    proposed is empty when nothing is to be changed. why: a sentence. source: where that comes from.
    remedy: None when there is none."""

    knob: str
    severity: Severity
    now: str
    proposed: str
    why: str
    source: str
    remedy: Remedy | None = None

    @property
    def now_shown(self) -> str:
        """`now` for people: sizes with a unit. Remedies keep the exact numbers."""
        return _shown(self.knob, self.now)

    @property
    def proposed_shown(self) -> str:
        """`proposed` for people."""
        return _shown(self.knob, self.proposed)

    def as_json(self) -> dict[str, object]:
        """The finding as JSON for programs, with the commands of its remedy."""
        pairs = asdict(self)
        pairs["severity"] = self.severity.value
        pairs["remedy"] = None
        if self.remedy is not None:
            remedy = self.remedy
            pairs["remedy"] = {"means": remedy.means.value, "apply": remedy.apply, "undo": remedy.undo}
        return pairs


ORDER = (Severity.SERIOUS, Severity.ADVICE, Severity.NOTE, Severity.UNSEEN, Severity.OK)


def sorted_findings(findings: list[Finding]) -> list[Finding]:
    """The worst first, otherwise in the given order."""
    return sorted(findings, key=lambda finding: ORDER.index(finding.severity))
