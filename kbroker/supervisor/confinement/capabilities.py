"""Capabilities of a broker that root has started. A broker of any other user has none.

Access to files of other users is kept, because log dirs and keys may belong to them; all other
capabilities are dropped.
"""

import ctypes
import struct
from collections.abc import Iterable
from typing import Final

CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER, CAP_SYS_PTRACE = 0, 1, 2, 3, 19
OF_WRITERS: Final = (CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER)
OF_READERS: Final = (CAP_DAC_READ_SEARCH,)
OF_OBSERVERS: Final = (CAP_DAC_READ_SEARCH, CAP_SYS_PTRACE)
"""CAP_SYS_PTRACE shows /proc of processes with more capabilities; seccomp refuses to trace them."""
PR_CAPBSET_READ, PR_CAPBSET_DROP, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 23, 24, 47, 4
VERSION_3: Final = 0x20080522
LAST: Final = 63
# two words of 32 capabilities, each: effective, permitted, inheritable
SETS: Final = struct.Struct("=6I")


def keep(capabilities: Iterable[int]) -> bool:
    """Drop all other capabilities; False if that failed."""
    libc = ctypes.CDLL(None, use_errno=True)
    kept = sum(1 << number for number in capabilities)
    head = struct.pack("=Ii", VERSION_3, 0)
    found = ctypes.create_string_buffer(SETS.size)
    if libc.capget(ctypes.c_char_p(head), found):
        return False
    effective, permitted, _, effective_high, permitted_high, _ = SETS.unpack(found.raw)
    if permitted | permitted_high:
        for number in range(LAST + 1):
            if not kept >> number & 1 and libc.prctl(PR_CAPBSET_READ, number, 0, 0, 0) == 1:
                libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0)
    libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    low, high = kept & 0xFFFFFFFF, kept >> 32
    left = SETS.pack(effective & low, permitted & low, 0, effective_high & high, permitted_high & high, 0)
    return not libc.capset(ctypes.c_char_p(head), ctypes.c_char_p(left))
