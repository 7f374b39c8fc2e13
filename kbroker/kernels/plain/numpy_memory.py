"""Reports every array that numpy allocates to the memory map, and every buffer that an array is
made from.

numpy has one table of functions for memory (PyDataMem_Handler, NEP 49). Its entries are exchanged
in place, so that all threads, and arrays of any age, use the exchanged ones.
"""

import atexit
import ctypes
import functools
import mmap
import weakref
from typing import Any

import numpy as np

from kbroker.kernels.plain.memory_map import MEMORY

DEFAULT_HANDLER = 306  # PyDataMem_DefaultHandler, a capsule, in numpy's table of C functions

_Pointer = ctypes.c_void_p
# with the GIL held, which numpy's own functions release themselves
_Malloc = ctypes.PYFUNCTYPE(_Pointer, _Pointer, ctypes.c_size_t)
_Calloc = ctypes.PYFUNCTYPE(_Pointer, _Pointer, ctypes.c_size_t, ctypes.c_size_t)
_Realloc = ctypes.PYFUNCTYPE(_Pointer, _Pointer, _Pointer, ctypes.c_size_t)
_Free = ctypes.PYFUNCTYPE(None, _Pointer, _Pointer, ctypes.c_size_t)


class _Handler(ctypes.Structure):
    """PyDataMem_Handler of numpy/ndarraytypes.h, version 1."""

    _fields_ = [
        ("name", ctypes.c_char * 127), ("version", ctypes.c_uint8), ("context", _Pointer),
        ("malloc", _Pointer), ("calloc", _Pointer), ("realloc", _Pointer), ("free", _Pointer),
    ]  # fmt: skip


def _default_handler() -> _Handler:
    """numpy's own table."""
    pointer_of: Any = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = _Pointer, (ctypes.py_object, ctypes.c_char_p)
    functions = pointer_of(np._core._multiarray_umath._ARRAY_API, None)  # type: ignore[attr-defined]
    entry = _Pointer.from_address(functions + DEFAULT_HANDLER * ctypes.sizeof(_Pointer)).value
    capsule = ctypes.cast(_Pointer.from_address(entry or 0), ctypes.py_object).value
    handler = _Handler.from_address(pointer_of(capsule, b"mem_handler"))
    if handler.name != b"default_allocator" or handler.version != 1:
        raise RuntimeError(f"numpy {np.__version__} allocates memory in a way that is not known here")
    return handler


class WatchedAllocator:
    """numpy's own allocator, whose calls are noted. Stays in use until the process ends."""

    def __init__(self) -> None:
        handler = self._handler = _default_handler()
        self._own = handler.malloc, handler.calloc, handler.realloc, handler.free
        malloc, calloc = _Malloc(handler.malloc), _Calloc(handler.calloc)
        realloc, free = _Realloc(handler.realloc), _Free(handler.free)

        def watched_malloc(context: int | None, size: int) -> int | None:
            found: int | None = malloc(context, size)
            if found:
                MEMORY.add(found, size)
            return found

        def watched_calloc(context: int | None, count: int, size: int) -> int | None:
            found: int | None = calloc(context, count, size)
            if found:
                MEMORY.add(found, count * size)
            return found

        def watched_realloc(context: int | None, old: int | None, size: int) -> int | None:
            if old:
                MEMORY.remove(old)
            found: int | None = realloc(context, old, size)
            if found:
                MEMORY.add(found, size)
            return found

        def watched_free(context: int | None, old: int | None, size: int) -> None:
            if old:
                MEMORY.remove(old)
            free(context, old, size)

        self._watched = _Malloc(watched_malloc), _Calloc(watched_calloc), _Realloc(watched_realloc)
        self._watched_free = _Free(watched_free)
        entries = (*self._watched, self._watched_free)
        handler.malloc, handler.calloc, handler.realloc, handler.free = (
            ctypes.cast(entry, _Pointer).value for entry in entries
        )
        atexit.register(self.restore)

    def restore(self) -> None:
        """Restore numpy's own functions: while an interpreter ends, no Python function may be
        called."""
        handler = self._handler
        handler.malloc, handler.calloc, handler.realloc, handler.free = self._own


_allocator: list[WatchedAllocator] = []
_frombuffer = np.frombuffer
_mappings: set[int] = set()


@functools.wraps(_frombuffer)
def _watched_frombuffer(buffer: Any, *arguments: Any, **named: Any) -> Any:
    """numpy.frombuffer, whose result's memory is noted."""
    array = _frombuffer(buffer, *arguments, **named)
    if isinstance(buffer, mmap.mmap):
        _note_mapping(buffer)
    note(array)
    return array


def _note_mapping(mapping: mmap.mmap) -> None:
    """Keep a mapping in the map until it is gone."""
    if id(mapping) not in _mappings:
        start = _frombuffer(mapping, np.uint8).ctypes.data
        MEMORY.add(start, len(mapping))
        _mappings.add(id(mapping))
        weakref.finalize(mapping, _forget_mapping, id(mapping), start).atexit = False


def _forget_mapping(number: int, start: int) -> None:
    _mappings.discard(number)
    MEMORY.remove(start)


def note(array: Any) -> None:
    """Add the memory of an array to the map, wherever it comes from."""
    if array.nbytes:
        MEMORY.borrow(array.ctypes.data, array.nbytes, array.flags.writeable)


def watch() -> None:
    """Let the memory map contain all arrays that numpy allocates from now on."""
    if not _allocator:
        _allocator.append(WatchedAllocator())
        np.frombuffer = _watched_frombuffer


__all__ = ["note", "watch"]
