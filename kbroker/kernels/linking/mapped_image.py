"""Linked kernels in a process: the image's file is mapped, so that code and constants are pages of
the file, which processes share.

No page may be written and run at the same time. Where files of the cache must not be run (a mount
with noexec), the process runs a copy.
"""

import ctypes
import logging
import os
import sys
from collections.abc import Callable
from typing import Any

from kbroker.kernels.linking.areas import PAGE, Area, Span
from kbroker.kernels.linking.mapping import READ, RUN, WRITE, Mapping
from kbroker.kernels.linking.shared_image import Contents
from kbroker.kernels.linking.symbols import Symbols

log = logging.getLogger(__name__)


class MappedImage:
    """The kernels of a process. Runs in: acceptor; its children inherit the mapping by
    forking."""

    def __init__(self, file: int) -> None:
        """file: a descriptor of the image, which no other user can write. Raises OSError or
        ImportError if the code cannot be used here, ValueError if the image is damaged."""
        self._memory, runs = _mapped(file)
        try:
            contents = Contents.of(self._memory.view())
            self._symbols = Symbols()
            self._fill(contents)
            self._protect(contents.spans, runs)
        except (OSError, ImportError, ValueError):
            self._memory.close()
            raise
        self._kernels = {(one.module, one.name): one for one in contents.kernels}

    def function(self, source: Callable[..., Any]) -> Callable[..., Any] | None:
        """The compiled form of a function, None when the image has none. It accepts arguments of
        its signature; others raise TypeError or ValueError."""
        one = self._kernels.get((source.__module__, source.__qualname__))
        if one is None:
            return None
        environment = self._symbols.dynfunc.Environment(source.__globals__)
        self._write(one.environment, id(environment))
        made: Callable[..., Any] = self._symbols.dynfunc.make_function(
            sys.modules[one.module],
            one.name,
            source.__doc__ or "",
            self._memory.start + one.wrapper,
            environment,
            self,  # kept alive by the function
        )
        return made

    def _fill(self, contents: Contents) -> None:
        """Write the addresses of this process."""
        for area in (Area.FIXED, Area.VARIABLES):
            self._memory.protect(contents.spans[area].start, contents.spans[area].pages, READ | WRITE)
        for offset, name in contents.externals:
            self._write(offset, self._symbols.address(name))
        for offset, value in contents.words:
            self._write(offset, self._memory.start + value)

    def _write(self, offset: int, value: int) -> None:
        ctypes.c_uint64.from_address(self._memory.start + offset).value = value

    def _protect(self, spans: dict[Area, Span], runs: bool) -> None:
        """Leave code to be run, variables to be written, and all to be read. runs: the code can be
        run already."""
        after = spans[Area.VARIABLES].start + spans[Area.VARIABLES].pages
        rest = Span(after, self._memory.size - after)
        for one in (Span(0, PAGE), spans[Area.CONSTANTS], spans[Area.FIXED], rest):
            self._memory.protect(one.start, one.pages, READ)
        if not runs:
            self._memory.protect(spans[Area.CODE].start, spans[Area.CODE].pages, READ | RUN)


def _mapped(file: int) -> tuple[Mapping, bool]:
    """The whole file in memory, and whether it can be run there. Raises OSError."""
    try:
        return Mapping.of_file(file, READ | RUN), True
    except PermissionError as error:
        log.debug("files of the cache cannot be run (%s): the kernels run from a copy", error)
    size = os.fstat(file).st_size
    memory = Mapping(size, READ | WRITE)
    content = os.pread(file, size, 0)
    memory.view()[: len(content)] = content
    return memory, False
