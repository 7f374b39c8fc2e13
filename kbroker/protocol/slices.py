"""Long work cut into slices: its caller gets control back after each slice, and decides when the
next runs.

`Work` runs a plain function on a stack of its own (a greenlet). Loops over what a client sent go through `paced`, or
call `breathe`: inside of a Work whose slice is over they stop right there until the next one;
outside they cost nothing. The function itself is written as if nobody else were there, so it has to
look again at what may have changed while it stood still: between two elements of a `paced` loop.
"""

import sys
import time
from collections.abc import Callable, Coroutine, Hashable, Iterable, Iterator
from heapq import merge
from typing import Any, Final, TypeVar

from greenlet import getcurrent, greenlet

from kbroker.protocol.schema import Struct

T = TypeVar("T")
H = TypeVar("H", bound=Hashable)
C = TypeVar("C", str, tuple[Any, ...])

SLICE_NS: Final = 1_000_000
LOOK_EVERY: Final = 8
"""Elements of a loop between two looks at the clock."""
SETS: Final = 256
RUN: Final = 512
"""Items that are sorted in one go."""
SHORT: Final = 64
"""Lists up to this length are freed at once."""

_OWN_REFERENCES: Final = 3
"""sys.getrefcount of an object that one list or field holds, and the variable under test."""


_LIST_FIELDS: dict[type, tuple[str, ...]] = {}

Steps = Callable[[Coroutine[Any, Any, Any]], Coroutine[Any, Any, Any]]


class Work(greenlet):  # type: ignore[misc]
    """One piece of long work. Owner: who calls `go_on` until it is `done`, where exceptions come
    out.

    steps: makes of a coroutine that the work starts one whose steps run in slices, too."""

    def __init__(self, function: Callable[[], Any], steps: Steps | None = None) -> None:
        super().__init__(function)
        self.ends_ns = 0
        self._began_ns = 0  # of CPU
        self.slices = 0
        self.steps = steps

    @property
    def done(self) -> bool:
        """Whether the function has returned or raised."""
        return bool(self.dead)

    def go_on(self) -> Any:
        """Run one slice; what the function returned, if it is done now."""
        self._began_ns = time.thread_time_ns()
        self.ends_ns = time.monotonic_ns() + SLICE_NS
        self.slices += 1
        self.parent = getcurrent()
        return self.switch()

    def is_over(self) -> bool:
        """Whether the slice is over: its time and as much CPU. A busy host that takes the CPU away
        does not make work long: what is waits for all long work before it."""
        left_ns = SLICE_NS - (time.thread_time_ns() - self._began_ns)
        if left_ns > 0:
            self.ends_ns = time.monotonic_ns() + left_ns
        return left_ns <= 0


def is_sliced() -> bool:
    """Whether this code runs in slices."""
    return type(getcurrent()) is Work


def stood_still() -> bool:
    """Whether others have had their turn since this code began."""
    work = getcurrent()
    return type(work) is Work and work.slices > 1


def in_slices(work: Coroutine[Any, Any, Any]) -> Coroutine[Any, Any, Any]:
    """The coroutine; if this code runs in slices, its steps do so as well."""
    own = getcurrent()
    return work if type(own) is not Work or own.steps is None else own.steps(work)


def breathe() -> None:
    """Stop here if the slice is over."""
    work = getcurrent()
    if type(work) is Work and time.monotonic_ns() >= work.ends_ns and work.is_over():
        work.parent.switch()


def paced(items: Iterable[T]) -> Iterable[T]:
    """The items; between two of them others may have their turn, if this code runs in slices."""
    return _paced(items) if type(getcurrent()) is Work else items


def _paced(items: Iterable[T]) -> Iterator[T]:
    left = LOOK_EVERY
    for item in items:
        left -= 1
        if not left:
            left = LOOK_EVERY
            breathe()
        yield item


def distinct(items: Iterable[H]) -> Iterable[H]:
    """The items, each once, in the order in which they first come.

    In slices they are remembered in many small sets: one large one would stop for all clients each
    time it grows."""
    return _distinct(items) if type(getcurrent()) is Work else dict.fromkeys(items)


def _distinct(items: Iterable[H]) -> Iterator[H]:
    seen: list[set[H]] = [set() for _ in range(SETS)]
    for item in paced(items):
        some = seen[hash(item) & (SETS - 1)]
        if item not in some:
            some.add(item)
            yield item
    for some in seen:
        some.clear()
        breathe()


class Names:
    """Names that a client sent, to look up in; collected in slices, and in many small sets, as by
    `distinct`."""

    def __init__(self, names: Iterable[str]) -> None:
        self._parts: list[set[str]] = [set() for _ in range(SETS)]
        for name in paced(names):
            self._parts[hash(name) & (SETS - 1)].add(name)

    def __contains__(self, name: object) -> bool:
        return name in self._parts[hash(name) & (SETS - 1)]


class Repeated:
    """The items that come more than once; collected in slices, and in many small sets, as by
    `distinct`."""

    def __init__(self, items: Iterable[Hashable]) -> None:
        once: list[set[Hashable]] = [set() for _ in range(SETS)]
        self._parts: list[set[Hashable]] = [set() for _ in range(SETS)]
        for item in paced(items):
            number = hash(item) & (SETS - 1)
            (self._parts if item in once[number] else once)[number].add(item)
        for some in once:
            some.clear()
            breathe()

    def __contains__(self, item: Hashable) -> bool:
        return item in self._parts[hash(item) & (SETS - 1)]


def in_order(items: Iterable[C]) -> list[C]:
    """The items, sorted. In slices they are merged from short sorted runs: sorting a million takes
    a second."""
    if not is_sliced():
        return sorted(items)
    given = list(_paced(items))
    runs: list[list[C]] = []
    for at in range(0, len(given), RUN):
        runs.append(sorted(given[at : at + RUN]))
        breathe()
    return list(_paced(merge(*runs)))


class PacedList(list[Any]):
    """A long list that a client sent: who iterates over it does so in slices."""

    __slots__ = ()

    def __iter__(self) -> Iterator[Any]:
        items = super().__iter__()
        return _paced(items) if type(getcurrent()) is Work else items


def release(message: Any) -> None:
    """Empty a message's lists that nobody else holds, in slices: the end of a million objects takes
    its time, too."""
    for name in _list_fields(type(message)):
        part = getattr(message, name)
        if part and sys.getrefcount(part) <= _OWN_REFERENCES:
            _empty(part)


def emptied(items: list[Any] | dict[Any, Any] | set[Any]) -> None:
    """Empty what nobody uses any more, in slices; outside of them it ends with its last
    reference."""
    if not is_sliced():
        return
    take = items.popitem if isinstance(items, dict) else items.pop
    while items:
        for _ in range(min(SHORT, len(items))):
            take()
        breathe()


def _empty(items: list[Any]) -> None:
    while items:
        chunk = items[-SHORT:]
        del items[-SHORT:]
        for item in chunk:
            if _list_fields(type(item)) and sys.getrefcount(item) <= _OWN_REFERENCES:
                release(item)
        item = None
        chunk.clear()
        breathe()


def _list_fields(kind: type) -> tuple[str, ...]:
    known = _LIST_FIELDS.get(kind)
    return _find_list_fields(kind) if known is None else known


def _find_list_fields(kind: type) -> tuple[str, ...]:
    """Fields of a struct that hold lists."""
    fields = kind.SCHEMA.fields if issubclass(kind, Struct) else ()
    found = tuple(field.name for field in fields if field.wire.startswith("[]"))
    _LIST_FIELDS[kind] = found
    return found
