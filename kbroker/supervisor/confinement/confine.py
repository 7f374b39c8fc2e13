"""Confines the calling process to the rights that its role needs."""

import ctypes
import logging

from msgspec import Struct

from kbroker.ipc.child import ChildContext
from kbroker.metrics.slots import Slots, bind
from kbroker.supervisor.confinement import capabilities, landlock, seccomp
from kbroker.supervisor.hardening import PR_SET_NO_NEW_PRIVS

log = logging.getLogger(__name__)

SETTING = "kbroker.confine.processes"


class Needs(Struct, frozen=True):
    """Rights that a role needs. reads_processes: it reads /proc of other processes, which Landlock
    would hide."""

    writes_files: bool = True
    reads_processes: bool = False


def confine(context: ChildContext, needs: Needs) -> None:
    """Drop all other rights that this kernel can drop; a gauge shows which."""
    if not context.config.get_bool(SETTING):
        return
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    slots = Slots(context.shared.metrics[context.process])
    done = {}
    if not needs.writes_files and not needs.reads_processes:
        done["landlock"] = landlock.forbid_writing()
    done["capabilities"] = capabilities.keep(_kept(needs))
    done["seccomp"] = seccomp.refuse(needs.writes_files)
    for way, works in done.items():
        slots.words[bind("kbroker_process_confined", confinement=way)] = int(works)
    if missing := [way for way, works in done.items() if not works]:
        log.debug("this kernel does not confine %s by %s", context.title, ", ".join(missing))


def _kept(needs: Needs) -> tuple[int, ...]:
    if needs.writes_files:
        return capabilities.OF_WRITERS
    return capabilities.OF_OBSERVERS if needs.reads_processes else capabilities.OF_READERS
