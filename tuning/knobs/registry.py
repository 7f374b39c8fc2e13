"""All knobs of the host, by room. `kbroker tune check` assesses them, and docs/knobs.md lists
them."""

from typing import Any

from tuning.finding import Finding
from tuning.knobs.disk import DISK
from tuning.knobs.file_system import FILE_SYSTEM
from tuning.knobs.knob import Knob
from tuning.knobs.limits import LIMITS
from tuning.knobs.memory import MEMORY
from tuning.knobs.network import NIC, SYSCTLS
from tuning.knobs.processor import PROCESSOR
from tuning.situation import Situation

KNOBS: dict[str, tuple[Knob[Any], ...]] = {
    "Memory": MEMORY,
    "Disks": DISK,
    "File systems": FILE_SYSTEM,
    "Network": (*SYSCTLS, *NIC),
    "Processors and kernel": PROCESSOR,
    "Descriptors": LIMITS,
}


def findings(situation: Situation) -> list[Finding]:
    """Findings of all knobs on this host."""
    return [finding for knobs in KNOBS.values() for knob in knobs for finding in knob.findings(situation)]
