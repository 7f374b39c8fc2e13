"""Long work in slices: control returns to the caller after each slice, and the caller decides when
the next one runs.

`Work` runs a plain function on its own stack (a greenlet). Loops over data of a client use `paced`, or
call `yield_slice`: in a Work whose slice is over they pause until the next slice; outside of a Work
they cost nothing. Other code may run at each pause, so the function must expect state to change
between two elements of a `paced` loop.
"""

import sys
import time
from collections.abc import Callable, Coroutine, Hashable, Iterable, Iterator
from contextlib import contextmanager
from heapq import merge
from typing import Any, Final, Generic, TypeVar, overload

from greenlet import getcurrent, greenlet

from kbroker.protocol.schema import Struct

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
P = TypeVar("P", bound=set[Any] | dict[Any, Any])
H = TypeVar("H", bound=Hashable)
C = TypeVar("C", str, tuple[Any, ...])

SLICE_NS: Final = 1_000_000
CHECK_EVERY: Final = 8
"""Elements of a loop between two checks of the clock."""
SETS: Final = 256
UNDIVIDED: Final = 4096
"""Keys that one set or dict holds; resizing it takes some tenths of a millisecond."""
RUN: Final = 512
"""Items that are sorted in one call."""
SHORT: Final = 64
"""Lists up to this length are freed at once."""


def _own_references() -> int:
    held: list[object] = [[]]
    part = held[0]
    return sys.getrefcount(part)


_OWN_REFERENCES: Final = _own_references()
"""sys.getrefcount of an object that one list or field holds, and the variable under test: 3, from
Python 3.14 on 2, since an argument is not counted."""


_LONG_FIELDS: dict[type, tuple[str, ...]] = {}

Steps = Callable[[Coroutine[Any, Any, Any]], Coroutine[Any, Any, Any]]


class Work(greenlet):  # type: ignore[misc]
    """One piece of long work. Owner: the caller of `run_slice`, which repeats it until the work is
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

    def run_slice(self) -> Any:
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


def has_yielded() -> bool:
    """Whether this code has paused since it began, so that state may have changed."""
    work = getcurrent()
    return type(work) is Work and work.slices > 1


def in_slices(work: Coroutine[Any, Any, Any]) -> Coroutine[Any, Any, Any]:
    """The coroutine; if this code runs in slices, the steps of the coroutine do, too."""
    own = getcurrent()
    return work if type(own) is not Work or own.steps is None else own.steps(work)


def yield_slice() -> None:
    """Pause here if the slice is over."""
    work = getcurrent()
    if type(work) is Work and time.monotonic_ns() >= work.ends_ns and work.is_over():
        work.parent.switch()


def at_once(function: Callable[[], T]) -> T:
    """The result of a function that must not pause, also if this code runs in slices."""
    if not is_sliced():
        return function()
    found: T = greenlet(function).switch()
    return found


def paced(items: Iterable[T]) -> Iterable[T]:
    """The items; if this code runs in slices, other code may run between two of them."""
    return _paced(items) if type(getcurrent()) is Work else items


def each_paced(items: Iterable[T]) -> Iterator[T]:
    """As `paced`, for items each of which may take more than a slice."""
    for item in items:
        yield_slice()
        yield item


def _paced(items: Iterable[T]) -> Iterator[T]:
    left = CHECK_EVERY
    for item in items:
        left -= 1
        if not left:
            left = CHECK_EVERY
            yield_slice()
        yield item


@overload
def distinct(items: Iterable[H]) -> Iterable[H]: ...


@overload
def distinct(items: Iterable[T], key: Callable[[T], Hashable]) -> Iterable[T]: ...


def distinct(items: Iterable[Any], key: Callable[[Any], Hashable] | None = None) -> Iterable[Any]:
    """The items without repetitions, in the order of their first occurrences. Items with the same
    key are repetitions; without `key` it is the item.

    In slices many small sets hold the keys: one large set would delay all clients each time it is
    resized."""
    if key is None and type(getcurrent()) is not Work:
        return dict.fromkeys(items)
    return _distinct(items, key)


def _distinct(items: Iterable[Any], key: Callable[[Any], Hashable] | None) -> Iterator[Any]:
    seen = Parts(set[Hashable])
    for item in paced(items):
        value = item if key is None else key(item)
        some = seen.of(value)
        if value not in some:
            some.add(value)
            yield item
    seen.clear()


class Parts(Generic[P]):
    """A set or dict that becomes SETS small ones when it is large. A request may need one for each
    of a million entries, so a small one has no more than it needs. all: the set or dict, or the
    small ones."""

    __slots__ = ("_kind", "all")

    def __init__(self, kind: Callable[[], P]) -> None:
        self._kind: Callable[[], P] = kind
        self.all: list[P] = [kind()]

    def of(self, key: object) -> P:
        """The set or dict that holds a key, or to which it is added."""
        if len(self.all) == 1:
            if len(self.all[0]) < UNDIVIDED:
                return self.all[0]
            self._divide()
        return self.all[hash(key) & (SETS - 1)]

    def clear(self) -> None:
        """Forget everything, in slices."""
        for part in self.all:
            emptied(part)
            part.clear()

    def _divide(self) -> None:
        whole: Any = self.all[0]
        self.all = [self._kind() for _ in range(SETS)]
        for key in whole:
            part = self.all[hash(key) & (SETS - 1)]
            if isinstance(part, dict):
                part[key] = whole[key]
            else:
                part.add(key)


class Names:
    """A set of names or ids that a client sent; collected in slices, in small sets, as by
    `distinct`."""

    def __init__(self, names: Iterable[Hashable]) -> None:
        self._parts = Parts(set[Hashable])
        for name in paced(names):
            self._parts.of(name).add(name)

    def __bool__(self) -> bool:
        return any(self._parts.all)

    def __contains__(self, name: object) -> bool:
        return name in self._parts.of(name)

    def clear(self) -> None:
        """Forget everything, in slices."""
        self._parts.clear()


class Table(Generic[K, V]):
    """A dict by what a client sent. In slices small dicts hold many keys, as by `distinct`, and the
    order of the items is not theirs; else it is one dict, in order."""

    def __init__(self, items: Iterable[tuple[K, V]] = ()) -> None:
        self._parts: Parts[dict[K, V]] = Parts(dict[K, V])
        self._part = self._parts.of if is_sliced() else self._whole
        for key, value in paced(items):
            self._part(key)[key] = value

    def _whole(self, _: object) -> dict[K, V]:
        return self._parts.all[0]

    def __contains__(self, key: K) -> bool:
        return key in self._part(key)

    def __getitem__(self, key: K) -> V:
        return self._part(key)[key]

    def __setitem__(self, key: K, value: V) -> None:
        self._part(key)[key] = value

    def get(self, key: K) -> V | None:
        """The value of a key, or None."""
        return self._part(key).get(key)

    def setdefault(self, key: K, make: Callable[[], V]) -> V:
        """The value, made if there is none."""
        part = self._part(key)
        if key not in part:
            part[key] = make()
        return part[key]

    def items(self) -> Iterator[tuple[K, V]]:
        """All (key, value), paced."""
        for part in self._parts.all:
            yield from paced(part.items())

    def clear(self) -> None:
        """Forget everything, in slices."""
        self._parts.clear()


class Repeated:
    """The set of items that occur more than once; collected in slices, in small sets, as by
    `distinct`."""

    def __init__(self, items: Iterable[Hashable]) -> None:
        once, self._parts = Parts(set[Hashable]), Parts(set[Hashable])
        for item in paced(items):
            (self._parts if item in once.of(item) else once).of(item).add(item)
        once.clear()

    def __contains__(self, item: Hashable) -> bool:
        return item in self._parts.of(item)

    def clear(self) -> None:
        """Forget everything, in slices."""
        self._parts.clear()


def in_order(items: Iterable[C]) -> list[C]:
    """The items, sorted. In slices, short sorted runs are merged, because sorting a million items
    in one call takes a second."""
    if not is_sliced():
        return sorted(items)
    given = list(_paced(items))
    runs: list[list[C]] = []
    for at in range(0, len(given), RUN):
        runs.append(sorted(given[at : at + RUN]))
        yield_slice()
    ordered = list(_paced(merge(*runs)))
    emptied(given, *runs)
    return ordered


class SlicedList(list[Any]):
    """A long list that a client sent; iteration over it is paced."""

    __slots__ = ()

    def __iter__(self) -> Iterator[Any]:
        items = super().__iter__()
        return _paced(items) if type(getcurrent()) is Work else items


def release(message: Any) -> None:
    """Empty a message's lists in slices, unless they have other references: freeing a million
    objects takes time, too."""
    for name in _long_fields(type(message)):
        part = getattr(message, name)
        if part and sys.getrefcount(part) <= _OWN_REFERENCES:
            if isinstance(part, list):
                _empty(part)
            else:
                release(part)


def emptied(*collections: list[Any] | dict[Any, Any] | set[Any]) -> None:
    """Empty collections that are no longer used, in slices. Outside of slices this does nothing:
    they are freed with their last reference."""
    if not is_sliced():
        return
    for items in collections:
        take = items.popitem if isinstance(items, dict) else items.pop
        while items:
            for _ in range(min(SHORT, len(items))):
                take()
            yield_slice()


def freed(items: list[Any]) -> None:
    """As `emptied`, of a list of structs that may hold long lists: those of a struct without other
    references are emptied, too."""
    if is_sliced():
        _empty(items)


@contextmanager
def emptying(*collections: list[Any] | dict[Any, Any] | set[Any]) -> Iterator[None]:
    """Empties collections in slices when the block ends, also by an exception: the frames that an
    exception passed keep them until it is handled."""
    try:
        yield
    finally:
        emptied(*collections)


def _empty(items: list[Any]) -> None:
    while items:
        chunk = items[-SHORT:]
        del items[-SHORT:]
        while chunk:
            item = chunk.pop()  # the last of several references to one item is its only one
            if _long_fields(type(item)) and sys.getrefcount(item) < _OWN_REFERENCES:
                release(item)
        item = None
        yield_slice()


def _long_fields(kind: type) -> tuple[str, ...]:
    known = _LONG_FIELDS.get(kind)
    return _find_long_fields(kind) if known is None else known


def _find_long_fields(kind: type) -> tuple[str, ...]:
    """Fields of a struct that hold lists, or structs with such fields."""
    fields = kind.SCHEMA.fields if issubclass(kind, Struct) else ()
    found = tuple(
        field.name
        for field in fields
        if field.wire.startswith("[]")
        or (field.wire == "struct" and field.item is not None and _long_fields(field.item))
    )
    _LONG_FIELDS[kind] = found
    return found
