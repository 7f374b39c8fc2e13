"""Memory of LLVM's linker, given back once the kernels are linked.

An image of linked kernels needs no LLVM. For one of object files LLVM's library is needed only at
the start: its linker loads the kernels and is not called again, but some 50 MB of the library's
file stay mapped. Runs in: acceptor.
"""

import ctypes
import logging
import os
import re

log = logging.getLogger(__name__)

LIBRARY = "libllvmlite"
MADV_DONTNEED = 4
_MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ \d+ +(/.*)")


def give_back(library: str = LIBRARY) -> int:
    """Unmap the unchanged pages of a library; returns the number of bytes that were mapped.

    The kernel maps a page again on the next use. A mapping with a private page (one that was
    written before it became read-only, such as relocations) is kept: its content is not in the
    file."""
    try:
        with open("/proc/self/smaps", encoding="utf-8", errors="replace") as smaps:
            found = _unchanged(smaps.read().splitlines(), library)
    except OSError as error:
        log.debug("the linker's memory is kept: %s", error)
        return 0
    madvise = ctypes.CDLL(None, use_errno=True).madvise
    madvise.argtypes = (ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int)
    given = 0
    for start, size, mapped in found:
        if madvise(start, size, MADV_DONTNEED) == 0:
            given += mapped
        else:
            log.debug("the linker's memory is kept: %s", os.strerror(ctypes.get_errno()))
    return given


def _unchanged(lines: list[str], library: str) -> list[tuple[int, int, int]]:
    """Start, size and mapped bytes of the library's read-only mappings without private pages."""
    found = []
    here: tuple[int, int] | None = None
    mapped = 0
    for line in lines:
        if (mapping := _MAPPING.match(line)) is not None:
            start, end, rights, path = mapping.groups()
            ours = library in path.rpartition("/")[2] and "w" not in rights
            here = (int(start, 16), int(end, 16)) if ours else None
        elif not line[0].isupper():
            here = None  # a mapping without a file
        elif here is not None and line.startswith("Rss:"):
            mapped = _bytes(line)
        elif here is not None and line.startswith("Anonymous:") and not _bytes(line):
            found.append((here[0], here[1] - here[0], mapped))
    return found


def _bytes(line: str) -> int:
    return int(line.split()[1]) * 1024
