"""The scheduler time slice that a process requests, and how soon its threads give way to its loop.

A network process and an IO worker run for microseconds and then sleep. With a short slice Linux
(6.12 and later, EEVDF) lets them run as soon as they are woken, before processes that compute for
milliseconds; they get no more time than others.
"""

import ctypes
import logging
import os
import platform
import struct
import sys

log = logging.getLogger(__name__)

SYSTEM_CALLS = {"x86_64": (314, 315), "aarch64": (274, 275), "riscv64": (274, 275)}
"""sched_setattr, sched_getattr; libc has no functions for them."""
ATTRIBUTES = struct.Struct("=IIQiIQQQ")
"""size, policy, flags, nice, priority, runtime (the slice, in ns), deadline, period"""
SCHED_OTHER = 0
RUNTIME = 5
SWITCH_S = 0.0005
"""Time until a thread in Python code, such as that of a long check of records or of a checkpoint of
thousands of logs, gives way to the loop, which waits this long after each kernel and each system
call. Python's own is ten times as long."""


def let_threads_give_way() -> None:
    """Let the threads of this process give way to its loop soon."""
    sys.setswitchinterval(SWITCH_S)


def ask_for_slice(microseconds: int) -> bool:
    """Request a slice for the calling thread and those that it starts. False: the kernel does not
    support it."""
    attributes = attributes_of_thread()
    if attributes is None or attributes[1] != SCHED_OTHER or not attributes[RUNTIME]:
        return False
    _, policy, _, nice, *_ = attributes
    options = ATTRIBUTES.pack(ATTRIBUTES.size, policy, 0, nice, 0, microseconds * 1000, 0, 0)
    if _call(0, 0, ctypes.c_char_p(options), 0):
        log.debug("no slice of %d us: %s", microseconds, os.strerror(ctypes.get_errno()))
        return False
    return True


def attributes_of_thread() -> tuple[int, ...] | None:
    """The fields of ATTRIBUTES of the calling thread; None where the kernel does not report
    them."""
    found = ctypes.create_string_buffer(ATTRIBUTES.size)
    if _call(1, 0, found, ATTRIBUTES.size, 0):
        return None
    return ATTRIBUTES.unpack(found.raw)


def _call(which: int, *arguments: object) -> int:
    numbers = SYSTEM_CALLS.get(platform.machine())
    if numbers is None:
        return -1
    return int(ctypes.CDLL(None, use_errno=True).syscall(numbers[which], *arguments))
