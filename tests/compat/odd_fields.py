"""A valid request with one odd field: every field of every struct in it, by the type of the field.

Nothing here knows an API. `changes` of a request are the same for both brokers, whose requests
differ only in ids and epochs.
"""

from collections.abc import Callable, Collection, Iterator
from copy import deepcopy
from functools import partial
from typing import Any, NamedTuple

from kbroker.protocol.schema import ZERO_UUID, Field, Struct

TEXTS = ("", " ", "absent", "b@d name", "w" * 250)
TWICE = "first twice"
UNKNOWN_ID, RESERVED_ID = b"unknown-topic-id", bytes(15) + b"\1"
BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
Step = str | int


class Change(NamedTuple):
    """One field at `path`, made odd."""

    path: tuple[Step, ...]
    what: str
    make: Callable[[Any], Any]

    def __str__(self) -> str:
        return f"{'.'.join(map(str, self.path))} {self.what}"

    def applied(self, request: Struct) -> Struct:
        """A copy of the request with the change."""
        changed = deepcopy(request)
        owner: Any = changed
        for step in self.path[:-1]:
            owner = owner[step] if isinstance(step, int) else getattr(owner, step)
        last = self.path[-1]
        if isinstance(last, int):
            owner[last] = self.make(owner[last])
        else:
            setattr(owner, last, self.make(getattr(owner, last)))
        return changed


def changes(request: Struct, version: int, kept: Collection[str] = ()) -> list[Change]:
    """Every change of the fields that this version has, but of those in `kept`."""
    return list(_of_struct(request, version, kept, ()))


def _of_struct(
    found: Struct, version: int, kept: Collection[str], path: tuple[Step, ...]
) -> Iterator[Change]:
    for field in found.SCHEMA.fields:
        if field.present(version) and field.name not in kept and field.wire != "records":
            yield from _of_field(field, getattr(found, field.name), version, kept, (*path, field.name))


def _of_field(
    field: Field, value: Any, version: int, kept: Collection[str], path: tuple[Step, ...]
) -> Iterator[Change]:
    if field.is_nullable(version) and value is not None:
        yield _set(path, None)
    if field.wire.startswith("[]"):
        yield from _of_list(field, value, version, kept, path)
    elif field.wire == "struct" and value is not None:
        yield from _of_struct(value, version, kept, path)
    elif field.wire == "bool":
        yield Change(path, "otherwise", lambda old: not old)
    else:
        yield from (_set(path, odd) for odd in _odd(field.wire))
        if field.wire in BITS:
            yield Change(path, "less", lambda old: max(old - 1, -(1 << BITS[field.wire] - 1)))
            yield Change(path, "more", lambda old: min(old + 1, (1 << BITS[field.wire] - 1) - 1))


def _odd(wire: str) -> tuple[Any, ...]:
    if wire in BITS:
        most = 1 << BITS[wire] - 1
        return (-most, -2, -1, 0, 1, most - 1)
    if wire == "uint16":
        return (0, 65535)
    return {"string": TEXTS, "uuid": (ZERO_UUID, UNKNOWN_ID, RESERVED_ID), "bytes": (b"", b"\0\xff")}.get(
        wire, ()
    )


def _of_list(
    field: Field, value: list[Any] | None, version: int, kept: Collection[str], path: tuple[Step, ...]
) -> Iterator[Change]:
    if value is None or value:
        yield Change(path, "empty", lambda _: [])
    if value:
        yield Change(path, TWICE, lambda old: [*old, deepcopy(old[0])])
        if field.wire == "[]struct":
            yield from _of_struct(value[0], version, kept, (*path, 0))
    if field.wire != "[]struct":
        for odd in _odd(field.wire[2:]):
            yield Change(path, f"also {odd!r:.20}", partial(_with, odd))


def _with(odd: Any, old: list[Any] | None) -> list[Any]:
    return [*(old or []), odd]


def _set(path: tuple[Step, ...], odd: Any) -> Change:
    return Change(path, f"= {odd!r:.20}", lambda _: odd)
