"""Memory of the linker of kernels, given back once the kernels are linked.

LLVM's library is needed at the start alone: its linker puts the image's kernels in place and is not
called again, but some 50 MB of the library's file stay mapped. Runs in: acceptor.
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
    """Unmap the pages of a library that are as in its file; bytes that were mapped.

    The kernel maps a page again when it is used again. A mapping with a page of its own (written
    before it became read-only, as relocations are) stays as it is: its content is nowhere else."""
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
    """Start, size and mapped bytes of mappings of the library that are read-only and have no page
    of their own."""
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
