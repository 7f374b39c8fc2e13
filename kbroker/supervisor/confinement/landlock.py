"""Landlock: a process changes no file, starts no program, listens on no port and sends signals to
no process except itself.

Unlike seccomp it resolves paths. Files that were opened before stay open.
"""

import ctypes
import logging
import struct
from typing import Final

from kbroker.supervisor.confinement.system_calls import LANDLOCK_CREATE_RULESET, LANDLOCK_RESTRICT_SELF

log = logging.getLogger(__name__)

CREATE_RULESET_VERSION: Final = 1
EXECUTE: Final = 1 << 0
WRITE_FILE: Final = 1 << 1
CHANGES_OF_FOLDERS: Final = sum(1 << bit for bit in range(4, 13))
"""Removing and making files and folders of all kinds."""
SINCE: Final = {2: 1 << 13, 3: 1 << 14}
"""Version of Landlock -> the access right that it added: linking to another folder, truncation."""
BIND_TCP: Final = 1 << 0
ABSTRACT_UNIX_SOCKET: Final = 1 << 0
SIGNAL: Final = 1 << 1
NETWORK_SINCE, SCOPES_SINCE = 4, 6


def version() -> int:
    """Version of the kernel's Landlock; 0 without Landlock."""
    found = _libc().syscall(
        ctypes.c_long(LANDLOCK_CREATE_RULESET),
        None,
        ctypes.c_size_t(0),
        ctypes.c_uint32(CREATE_RULESET_VERSION),
    )
    return max(0, int(found))


def forbid_writing() -> bool:
    """Forbid everything above, for this thread and the threads it starts; False if the kernel has
    no Landlock.

    needs: no_new_privs."""
    libc, known = _libc(), version()
    if not known:
        return False
    rules = ruleset(known)
    handle = libc.syscall(
        ctypes.c_long(LANDLOCK_CREATE_RULESET),
        ctypes.c_char_p(rules),
        ctypes.c_size_t(len(rules)),
        ctypes.c_uint32(0),
    )
    if handle < 0:
        log.debug("no Landlock: errno %d", ctypes.get_errno())
        return False
    refused = libc.syscall(ctypes.c_long(LANDLOCK_RESTRICT_SELF), ctypes.c_int(handle), ctypes.c_uint32(0))
    libc.close(handle)
    return not refused


def ruleset(known: int) -> bytes:
    """A ruleset of the handled rights. It has no rules, so all of them are forbidden."""
    files = EXECUTE | WRITE_FILE | CHANGES_OF_FOLDERS
    files |= sum(right for since, right in SINCE.items() if since <= known)
    words = [files]
    if known >= NETWORK_SINCE:
        words.append(BIND_TCP)
    if known >= SCOPES_SINCE:
        words.append(ABSTRACT_UNIX_SOCKET | SIGNAL)
    return struct.pack(f"={len(words)}Q", *words)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
