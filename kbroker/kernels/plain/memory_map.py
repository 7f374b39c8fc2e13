"""Memory that plain kernels may touch: what numpy has allocated, what was mapped, what arrays were
made from.

Runs in: any process with KBROKER_NO_KERNELS=1. Owner: the process.
"""

import ctypes
import gc
import sys
import threading
from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict
from types import CodeType, FrameType
from typing import Any

from msgspec import Struct, field

from kbroker.kernels.plain.writers import Rows

BORROWED = 4096  # buffers whose arrays are gone, and which may still be there
HERE = "kbroker.kernels.plain"

_READ, _WRITE = 0x100, 0x200  # PyBUF_READ and PyBUF_WRITE
_memoryview_of: Any = ctypes.pythonapi.PyMemoryView_FromMemory
_memoryview_of.restype, _memoryview_of.argtypes = (
    ctypes.py_object,
    (ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int),
)


class MemoryFault(Exception):
    """A kernel touched memory that is not there, or that it may not write."""


class Block(Struct, eq=False):
    """A piece of memory. rows: the tables that were declared in it, by address."""

    start: int
    end: int
    view: memoryview
    rows: list[Rows] = field(default_factory=list)

    def table_at(self, address: int) -> Rows | None:
        """The table in which an address lies."""
        for table in self.rows:
            if table.start <= address < table.end:
                return table
        return None

    def describe(self) -> str:
        names = ", ".join(sorted({one.row.__name__ for one in self.rows}))
        return f"{self.end - self.start} bytes" + (f" of {names}" if names else "")


NOTHING = Block(0, 0, memoryview(b""))
KERNELS: dict[CodeType, str] = {}
"""Names of the kernels by their code."""


class _Exclusive:
    """A lock (for `with`) that also stops garbage collection, which would free arrays, and so
    remove blocks, in the middle of a change."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._depth = 0
        self._collects = False

    def __enter__(self) -> None:
        self._lock.acquire()
        if self._depth == 0:
            self._collects = gc.isenabled()
            gc.disable()
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if self._depth == 0 and self._collects:
            gc.enable()
        self._lock.release()


class MemoryMap:
    """Every block by its address; two never overlap."""

    def __init__(self) -> None:
        self.last = NOTHING
        self._blocks: dict[int, Block] = {}
        self._starts: list[int] = []
        self._borrowed: OrderedDict[int, None] = OrderedDict()
        self._lock = _Exclusive()

    def add(self, start: int, size: int, writable: bool = True) -> Block:
        """Add memory that exists from now on; older blocks at these addresses are removed."""
        block = Block(start, start + size, _memoryview_of(start, size, _WRITE if writable else _READ))
        with self._lock:
            self._forget_overlapping(start, start + size)
            self._blocks[start] = block
            insort(self._starts, start)
        return block

    def borrow(self, start: int, size: int, writable: bool) -> None:
        """Add memory of a Python buffer, whose end is not reported."""
        with self._lock:
            known = self._at(start)
            if known is not None and start + size <= known.end:
                if known.start in self._borrowed:
                    self._borrowed.move_to_end(known.start)
                return
            self.add(start, size, writable)
            self._borrowed[start] = None
            if len(self._borrowed) > BORROWED:
                self.remove(self._borrowed.popitem(last=False)[0])

    def remove(self, start: int) -> None:
        """Remove memory that is gone."""
        with self._lock:
            block = self._blocks.pop(start, None)
            if block is None:
                return
            self._borrowed.pop(start, None)
            at = bisect_left(self._starts, start)
            if at < len(self._starts) and self._starts[at] == start:
                del self._starts[at]
            if self.last is block:
                self.last = NOTHING

    def find(self, address: int, size: int, action: str) -> Block:
        """The block that holds so many bytes at an address. Raises MemoryFault."""
        with self._lock:
            block = self._at(address)
            if block is None or address + size > block.end:
                raise self._fault(address, size, action, block)
            self.last = block
        return block

    def check(self, address: int, size: int, action: str) -> None:
        """As `find`, for memory that C code will touch: writers of rows are checked, too. action:
        "read" or "write"."""
        if size == 0:
            return
        block = self.find(address, size, action)
        if action == "write":
            if block.view.readonly:
                raise MemoryFault(f"{place()} writes {size} bytes into memory that is read-only")
            if block.rows:
                self.check_writer(block, address, size)

    def check_writer(self, block: Block, address: int, size: int) -> None:
        """Raises WrongWriter for a word that the code which runs does not own."""
        table = block.table_at(address)
        if table is not None:
            table.check(address, size, place)

    def block_at(self, address: int) -> Block | None:
        """The block that holds an address."""
        with self._lock:
            return self._at(address)

    # --- with the lock held ---------------------------------------------------------------------------

    def _before(self, address: int) -> Block | None:
        """The last block that begins at an address or before it."""
        at = bisect_right(self._starts, address) - 1
        return self._blocks.get(self._starts[at]) if at >= 0 else None

    def _at(self, address: int) -> Block | None:
        block = self._before(address)
        return block if block is not None and address < block.end else None

    def _forget_overlapping(self, start: int, end: int) -> None:
        before = self._at(start)
        if before is not None:
            self.remove(before.start)
        while (at := bisect_left(self._starts, start)) < len(self._starts) and self._starts[at] < end:
            self.remove(self._starts[at])

    def _fault(self, address: int, size: int, action: str, block: Block | None) -> MemoryFault:
        if block is None:
            block = self._before(address)
            beyond = address - block.end if block else None
            near = (
                f"{beyond} bytes after the end of {block.describe()}" if block and beyond is not None else ""
            )
            if beyond is None or beyond > 1 << 16:
                near = "where nothing is allocated"
        else:
            near = f"{address + size - block.end} bytes too many for {block.describe()}"
        return MemoryFault(f"{place()} would {action} {size} bytes at {address:#x}, {near}")


MEMORY = MemoryMap()


def place() -> str:
    """The kernel that runs, and the line of its source or of a function it calls."""
    line, kernel = "", ""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        inside = frame.f_globals.get("__name__", "").startswith(HERE)
        if not line and not inside:
            line = f"{frame.f_globals.get('__name__')}:{frame.f_lineno} ({frame.f_code.co_name})"
        if not kernel and frame.f_code in KERNELS:
            kernel = KERNELS[frame.f_code]
        frame = frame.f_back
    return f"kernel {kernel}, at {line}," if kernel else line
