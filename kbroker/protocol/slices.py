"""Long work in slices: control returns to the caller after each slice, and the caller decides when
the next one runs.

`Work` runs a plain function on its own stack (a greenlet). Loops over data of a client use `paced`, or
call `breathe`: in a Work whose slice is over they pause until the next slice; outside of a Work
they cost nothing. Other code may run at each pause, so the function must expect state to change
between two elements of a `paced` loop.
"""

import sys
import time
from collections.abc import Callable, Coroutine, Hashable, Iterable, Iterator
from heapq import merge
from typing import Any, Final, Generic, TypeVar

from greenlet import getcurrent, greenlet

from kbroker.protocol.schema import Struct

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
H = TypeVar("H", bound=Hashable)
C = TypeVar("C", str, tuple[Any, ...])

SLICE_NS: Final = 1_000_000
LOOK_EVERY: Final = 8
"""Elements of a loop between two checks of the clock."""
SETS: Final = 256
RUN: Final = 512
"""Items that are sorted in one call."""
SHORT: Final = 64
"""Lists up to this length are freed at once."""

_OWN_REFERENCES: Final = 3
"""sys.getrefcount of an object that one list or field holds, and the variable under test."""


_LIST_FIELDS: dict[type, tuple[str, ...]] = {}

Steps = Callable[[Coroutine[Any, Any, Any]], Coroutine[Any, Any, Any]]


class Work(greenlet):  # type: ignore[misc]
    """One piece of long work. Owner: the caller of `go_on`, which repeats it until the work is
    `done`, and gets its exceptions.

    steps: wraps a coroutine that the work starts, so that its steps run in slices, too."""

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
        """Run one slice; returns the function's result if it is done now."""
        self._began_ns = time.thread_time_ns()
        self.ends_ns = time.monotonic_ns() + SLICE_NS
        self.slices += 1
        self.parent = getcurrent()
        return self.switch()

    def is_over(self) -> bool:
        """Whether the slice is over: both its time and that much CPU are used up. Time without the
        CPU, on a busy host, does not count: it would turn short work into long work, which waits
        for all long work before it."""
        left_ns = SLICE_NS - (time.thread_time_ns() - self._began_ns)
        if left_ns > 0:
            self.ends_ns = time.monotonic_ns() + left_ns
        return left_ns <= 0


def is_sliced() -> bool:
    """Whether this code runs in slices."""
    return type(getcurrent()) is Work


def stood_still() -> bool:
    """Whether this code has paused since it began, so that state may have changed."""
    work = getcurrent()
    return type(work) is Work and work.slices > 1


def in_slices(work: Coroutine[Any, Any, Any]) -> Coroutine[Any, Any, Any]:
    """The coroutine; if this code runs in slices, the steps of the coroutine do, too."""
    own = getcurrent()
    return work if type(own) is not Work or own.steps is None else own.steps(work)


def breathe() -> None:
    """Pause here if the slice is over."""
    work = getcurrent()
    if type(work) is Work and time.monotonic_ns() >= work.ends_ns and work.is_over():
        work.parent.switch()


def paced(items: Iterable[T]) -> Iterable[T]:
    """The items; if this code runs in slices, other code may run between two of them."""
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
    """The items without repetitions, in the order of their first occurrences.

    In slices many small sets hold them: one large set would delay all clients each time it is
    resized."""
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
    """A set of names or ids that a client sent; collected in slices, in many small sets, as by
    `distinct`."""

    def __init__(self, names: Iterable[Hashable]) -> None:
        self._parts: list[set[Hashable]] = [set() for _ in range(SETS)]
        for name in paced(names):
            self._parts[hash(name) & (SETS - 1)].add(name)

    def __bool__(self) -> bool:
        return any(self._parts)

    def __contains__(self, name: object) -> bool:
        return name in self._parts[hash(name) & (SETS - 1)]


class Table(Generic[K, V]):
    """A dict by what a client sent. In slices many small dicts hold it, as by `distinct`, and the
    order of its items is not theirs; else it has one, in order."""

    def __init__(self, items: Iterable[tuple[K, V]] = ()) -> None:
        self._parts: list[dict[K, V]] = [{} for _ in range(SETS if is_sliced() else 1)]
        for key, value in paced(items):
            self[key] = value

    def _part(self, key: K) -> dict[K, V]:
        return self._parts[hash(key) % len(self._parts)]

    def __contains__(self, key: K) -> bool:
        return key in self._part(key)

    def __getitem__(self, key: K) -> V:
        return self._part(key)[key]

    def __setitem__(self, key: K, value: V) -> None:
        self._part(key)[key] = value

    def get(self, key: K) -> V | None:
        """As of a dict."""
        return self._part(key).get(key)

    def setdefault(self, key: K, make: Callable[[], V]) -> V:
        """The value, made if there is none."""
        part = self._part(key)
        if key not in part:
            part[key] = make()
        return part[key]

    def items(self) -> Iterator[tuple[K, V]]:
        """Paced."""
        for part in self._parts:
            yield from paced(part.items())

    def clear(self) -> None:
        """Forget everything, in slices."""
        for part in self._parts:
            part.clear()
            breathe()


class Repeated:
    """The set of items that occur more than once; collected in slices, in many small sets, as by
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
    """The items, sorted. In slices, short sorted runs are merged, because sorting a million items
    in one call takes a second."""
    if not is_sliced():
        return sorted(items)
    given = list(_paced(items))
    runs: list[list[C]] = []
    for at in range(0, len(given), RUN):
        runs.append(sorted(given[at : at + RUN]))
        breathe()
    return list(_paced(merge(*runs)))


class PacedList(list[Any]):
    """A long list that a client sent; iteration over it is paced."""

    __slots__ = ()

    def __iter__(self) -> Iterator[Any]:
        items = super().__iter__()
        return _paced(items) if type(getcurrent()) is Work else items


def release(message: Any) -> None:
    """Empty a message's lists in slices, unless they have other references: freeing a million
    objects takes time, too."""
    for name in _list_fields(type(message)):
        part = getattr(message, name)
        if part and sys.getrefcount(part) <= _OWN_REFERENCES:
            _empty(part)


def emptied(items: list[Any] | dict[Any, Any] | set[Any]) -> None:
    """Empty a collection that is no longer used, in slices. Outside of slices this does nothing: it
    is freed with its last reference."""
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
