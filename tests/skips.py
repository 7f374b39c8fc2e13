"""Skipped tests: counted by reason, and in CI allowed only for the reasons in tests/skips.txt."""

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

ALLOWED = Path(__file__).with_suffix(".txt")
KINDS = ("chosen", "machine")
NO_KIND = "not allowed"
LINE = re.compile(r"^SKIPPED \[(\d+)\] \S+: (.*)$")  # of pytest's summary, with -ra


@dataclass(frozen=True)
class Allowance:
    """A line of tests/skips.txt. reason: how the reasons begin for which it holds."""

    tier: str
    kind: str
    reason: str
    cause: str

    def covers(self, tier: str, reason: str) -> bool:
        return self.tier in ("any", tier) and reason.startswith(self.reason)


def allowances() -> list[Allowance]:
    lines = ALLOWED.read_text().splitlines()
    return [
        Allowance(*map(str.strip, line.split("  ", 3))) for line in lines if line and not line.startswith("#")
    ]


def skipped(line: str) -> Counter[str]:
    """Reason and number in one line of pytest's output; empty for all other lines."""
    found = LINE.match(line)
    return Counter({found[2].strip(): int(found[1])}) if found else Counter()


def kind(tier: str, reason: str) -> str:
    """The kind of the first line that allows it, or NO_KIND."""
    return next((each.kind for each in allowances() if each.covers(tier, reason)), NO_KIND)


def summary(tier: str, reasons: Counter[str]) -> list[str]:
    """A line for each reason of a tier."""
    return [
        f"[tests] SKIPPED {count} in {tier}, {kind(tier, reason)}: {reason[:100]}"
        for reason, count in sorted(reasons.items())
    ]


def refused(tier: str, reasons: Counter[str]) -> list[str]:
    """The reasons that nothing allows."""
    return sorted(reason for reason in reasons if kind(tier, reason) == NO_KIND)
