"""Numbers of the system calls that confinement names, by machine: libc has no table of them."""

from typing import Final

X86_64: Final = {
    "open": 2, "pipe": 22, "execve": 59, "ptrace": 101, "truncate": 76, "rename": 82, "mkdir": 83, "rmdir": 84,
    "creat": 85, "link": 86, "unlink": 87, "symlink": 88, "chmod": 90, "fchmod": 91, "chown": 92, "fchown": 93,
    "lchown": 94, "mknod": 133, "pivot_root": 155, "chroot": 161, "acct": 163, "mount": 165, "umount2": 166,
    "swapon": 167, "swapoff": 168, "reboot": 169, "init_module": 175, "delete_module": 176, "kexec_load": 246,
    "add_key": 248, "request_key": 249, "keyctl": 250, "openat": 257, "mkdirat": 258, "mknodat": 259,
    "fchownat": 260, "unlinkat": 263, "renameat": 264, "linkat": 265, "symlinkat": 266, "fchmodat": 268,
    "unshare": 272, "perf_event_open": 298, "open_by_handle_at": 304, "setns": 308, "process_vm_readv": 310,
    "process_vm_writev": 311, "finit_module": 313, "renameat2": 316, "kexec_file_load": 320, "bpf": 321,
    "execveat": 322, "userfaultfd": 323, "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427,
    "open_tree": 428, "move_mount": 429, "fsopen": 430, "fsmount": 432, "openat2": 437, "pidfd_getfd": 438,
    "mount_setattr": 442, "fchmodat2": 452, "capset": 126, "setxattr": 188, "lsetxattr": 189, "fsetxattr": 190,
}  # fmt: skip
GENERIC: Final = {
    "ptrace": 117, "truncate": 45, "execve": 221, "fchmod": 52, "fchown": 55, "pivot_root": 41, "chroot": 51,
    "acct": 89, "mount": 40, "umount2": 39, "swapon": 224, "swapoff": 225, "reboot": 142, "init_module": 105,
    "delete_module": 106, "kexec_load": 104, "add_key": 217, "request_key": 218, "keyctl": 219, "openat": 56,
    "mkdirat": 34, "mknodat": 33, "fchownat": 54, "unlinkat": 35, "renameat": 38, "linkat": 37, "symlinkat": 36,
    "fchmodat": 53, "unshare": 97, "perf_event_open": 241, "open_by_handle_at": 265, "setns": 268,
    "process_vm_readv": 270, "process_vm_writev": 271, "finit_module": 273, "renameat2": 276,
    "kexec_file_load": 294, "bpf": 280, "execveat": 281, "userfaultfd": 282, "io_uring_setup": 425,
    "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428, "move_mount": 429, "fsopen": 430,
    "fsmount": 432, "openat2": 437, "pidfd_getfd": 438, "mount_setattr": 442, "fchmodat2": 452, "capset": 91,
    "setxattr": 5, "lsetxattr": 6, "fsetxattr": 7,
}  # fmt: skip
"""arm64 and riscv64 have only the calls that take a directory."""

AUDIT_ARCH: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7, "riscv64": 0xC00000F3}
NUMBERS: Final = {"x86_64": X86_64, "aarch64": GENERIC, "riscv64": GENERIC}

# Landlock's have the same numbers everywhere.
LANDLOCK_CREATE_RULESET: Final = 444
LANDLOCK_RESTRICT_SELF: Final = 446
