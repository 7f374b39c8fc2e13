"""The upkeep of a host: its clock, reports of freed blocks to disks; and whether log dirs
may be written to."""

import ctypes
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tuning.host.roots import Roots

TIMER = "systemd/system/timers.target.wants/fstrim.timer"
NOT_SYNCHRONISED = 5
"""adjtimex(2): TIME_ERROR."""
TIMEX_BYTES = 208


@dataclass(frozen=True, slots=True)
class Upkeep:
    """clock: whether the kernel's clock is synchronised. trim_timer: whether freed blocks are
    reported each week, None without systemd. Both None where it cannot be seen."""

    clock: bool | None = None
    trim_timer: bool | None = None


def kernel_clock() -> int:
    """State of the kernel's clock, -1 where it does not say."""
    room = ctypes.create_string_buffer(TIMEX_BYTES)
    return int(ctypes.CDLL(None).adjtimex(room))


def upkeep_of(roots: Roots, clock: Callable[[], int] = kernel_clock) -> Upkeep:
    """Everything that can be seen."""
    state = clock()
    has_systemd = (roots.etc / "systemd" / "system").is_dir()
    return Upkeep(
        None if state < 0 else state != NOT_SYNCHRONISED,
        os.path.lexists(roots.etc / TIMER) if has_systemd else None,
    )


def unwritable_of(log_dirs: tuple[str, ...]) -> tuple[str, ...]:
    """Log dirs that this user cannot write to; for those that are missing the folder counts that is
    to hold them."""
    return tuple(each for each in log_dirs if not os.access(_existing(Path(each)), os.W_OK | os.X_OK))


def _existing(folder: Path) -> Path:
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder
