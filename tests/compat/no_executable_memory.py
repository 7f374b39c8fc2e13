"""Runs a command that must not run memory that it has written, as MemoryDenyWriteExecute=yes of
systemd has it: `python no_executable_memory.py COMMAND...`.

systemd uses a seccomp filter, which newer versions give up for a flag of the process; here both
are set, as far as the kernel has them. The command inherits them, and so do its children.
"""

import ctypes
import errno
import mmap
import os
import struct
import sys

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, PR_SET_MDWE = 38, 22, 65
SECCOMP_MODE_FILTER = 2
ALLOW, REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM
LOAD, EQUAL, ANY_BIT, RETURN = 0x20, 0x15, 0x45, 0x06
NUMBER_AT, RIGHTS_AT = 0, 16 + 2 * 8  # the number of the call, its third argument
MMAP, MPROTECT, PKEY_MPROTECT = 9, 10, 329  # of x86-64


def program() -> bytes:
    """The filter: no page may be mapped to be written and run, and none may be made executable."""
    writes = [(ANY_BIT, 0, 1, mmap.PROT_WRITE)]
    code = [(LOAD, 0, 0, NUMBER_AT)]
    for call, more in ((MMAP, writes), (MPROTECT, []), (PKEY_MPROTECT, [])):
        block = [(ANY_BIT, 0, 1 + len(more), mmap.PROT_EXEC), *more, (RETURN, 0, 0, REFUSE)]
        code += [(EQUAL, 0, 2 + len(block), call), (LOAD, 0, 0, RIGHTS_AT), *block, (RETURN, 0, 0, ALLOW)]
    code.append((RETURN, 0, 0, ALLOW))
    return b"".join(struct.pack("=HBBI", *one) for one in code)


def refuse() -> None:
    """For this process from now on."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_MDWE, 1, 0, 0, 0)  # Linux 6.3
    text = ctypes.create_string_buffer(code := program())
    head = struct.pack("@HP", len(code) // 8, ctypes.addressof(text))
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.c_char_p(head), 0, 0):
        sys.exit(f"no seccomp filter: {os.strerror(ctypes.get_errno())}")


if __name__ == "__main__":
    refuse()
    os.execv(sys.argv[1], sys.argv[1:])
