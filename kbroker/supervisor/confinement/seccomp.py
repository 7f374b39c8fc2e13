"""A seccomp filter: system calls that a child never needs fail from now on, for all its threads.

It lists refused calls, not allowed ones: an update of a library may use new calls. The filter is a
program of classic BPF, which checks the number of the call and, for opens, the flags.
"""

import ctypes
import errno
import logging
import platform
import struct
from collections.abc import Iterable
from typing import Final

from kbroker.supervisor.confinement.system_calls import AUDIT_ARCH, NUMBERS

log = logging.getLogger(__name__)

PR_SET_SECCOMP: Final = 22
SECCOMP_MODE_FILTER: Final = 2
ALLOW: Final = 0x7FFF0000
ERRNO: Final = 0x00050000
X32_BIT: Final = 0x40000000

# seccomp_data: number, machine, instruction pointer, six arguments of 8 bytes; the low half of one
# comes first
NUMBER_AT, MACHINE_AT, ARGUMENTS_AT = 0, 4, 16

# one instruction: code, jump if true, jump if false, constant
INSTRUCTION: Final = struct.Struct("=HBBI")
LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06

O_WRONLY, O_RDWR, O_CREAT, O_TRUNC, O_APPEND = 0o1, 0o2, 0o100, 0o1000, 0o2000
O_TMPFILE: Final = 0o20000000
WRITING: Final = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_TMPFILE

REFUSED_TO_ALL: Final = (
    "execve", "execveat", "ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd", "kexec_load",
    "kexec_file_load", "init_module", "finit_module", "delete_module", "bpf", "perf_event_open", "userfaultfd",
    "mount", "umount2", "pivot_root", "chroot", "open_tree", "move_mount", "fsopen", "fsmount", "mount_setattr",
    "unshare", "setns", "keyctl", "add_key", "request_key", "swapon", "swapoff", "reboot", "acct",
    "open_by_handle_at", "io_uring_setup", "io_uring_enter", "io_uring_register", "capset",
)  # fmt: skip
"""io_uring would open files without these calls."""
NO_READER: Final = (
    "creat", "openat2", "truncate", "rename", "renameat", "renameat2", "mkdir", "mkdirat", "rmdir", "link", "linkat",
    "unlink", "unlinkat", "symlink", "symlinkat", "chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown",
    "lchown", "fchownat", "mknod", "mknodat", "setxattr", "lsetxattr", "fsetxattr",
)  # fmt: skip
FLAGS_OF_OPEN: Final = {"open": 1, "openat": 2}
"""The argument that holds the flags."""


def refuse(writes_files: bool) -> bool:
    """Make these calls fail with EPERM; False if the kernel has no seccomp filters."""
    machine = platform.machine()
    if machine not in NUMBERS:
        return False
    code = program(machine, writes_files)
    text = ctypes.create_string_buffer(code)
    head = struct.pack("@HP", len(code) // INSTRUCTION.size, ctypes.addressof(text))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.c_char_p(head), 0, 0):
        log.debug("no seccomp filter: errno %d", ctypes.get_errno())
        return False
    return True


def program(machine: str, writes_files: bool) -> bytes:
    """The filter. Each block below ends with a return or falls through to the next one."""
    numbers = NUMBERS[machine]
    refused = [*REFUSED_TO_ALL, *(() if writes_files else NO_READER)]
    code = [_is(LOAD, MACHINE_AT), _is(EQUAL, AUDIT_ARCH[machine], 1, 0), _refusal(), _is(LOAD, NUMBER_AT)]
    if machine == "x86_64":
        code += [_is(AT_LEAST, X32_BIT, 0, 1), _refusal()]
    for number in _numbers(numbers, refused):
        code += [_is(EQUAL, number, 0, 1), _refusal()]
    if not writes_files:
        for name, argument in FLAGS_OF_OPEN.items():
            if name in numbers:
                flags_at = ARGUMENTS_AT + 8 * argument
                code += [
                    _is(EQUAL, numbers[name], 0, 4),
                    _is(LOAD, flags_at),
                    _is(ANY_BIT, WRITING & ~_directory_bit(machine), 0, 1),
                    _refusal(),
                    _is(RETURN, ALLOW),
                ]
    return b"".join([*code, _is(RETURN, ALLOW)])


def _directory_bit(machine: str) -> int:
    """O_TMPFILE contains O_DIRECTORY, with which folders are read."""
    return 0o200000 if machine in ("x86_64", "riscv64") else 0o40000


def _numbers(table: dict[str, int], names: Iterable[str]) -> list[int]:
    return [table[name] for name in names if name in table]


def _is(code: int, constant: int, then: int = 0, otherwise: int = 0) -> bytes:
    return INSTRUCTION.pack(code, then, otherwise, constant)


def _refusal() -> bytes:
    return _is(RETURN, ERRNO | errno.EPERM)
