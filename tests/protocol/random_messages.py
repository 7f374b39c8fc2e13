"""Random messages: any value that a version can carry, in the fields that it has; the others keep
their default."""

import random
from collections.abc import Callable, Iterator
from typing import Any

from kbroker.protocol.coordinator_records.index import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from kbroker.protocol.messages import request_class, response_class
from kbroker.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from kbroker.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from kbroker.protocol.messages.index import APIS
from kbroker.protocol.messages.request_header import RequestHeader
from kbroker.protocol.messages.response_header import ResponseHeader
from kbroker.protocol.schema import FIXED, Field, Struct

INTEGERS = {
    "int8": (8, True),
    "int16": (16, True),
    "uint16": (16, False),
    "int32": (32, True),
    "int64": (64, True),
}
Numbers = Callable[[random.Random, Field], int | None]


def all_structs() -> list[type[Struct]]:
    """The root of every message and record that the project knows."""
    roots = [cls(key) for key in APIS for cls in (request_class, response_class)]
    roots += [RequestHeader, ResponseHeader, ConsumerProtocolAssignment, ConsumerProtocolSubscription]
    for table in (CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE):
        roots += [cls for pair in table.values() for cls in pair]
    return roots


def versions(cls: type[Struct]) -> Iterator[int]:
    first, last = cls.SCHEMA.versions
    return iter(range(first, last + 1))


def _integer(rng: random.Random, wire: str) -> int:
    bits, signed = INTEGERS[wire]
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return rng.choice([low, high, 0, 1, rng.randint(low, high), rng.randint(max(low, -2), 100)])


def _text(rng: random.Random) -> str:
    length = rng.choice([0, 1, 5, 63, 127, 128, 300])
    return "".join(rng.choice("aZ9-_.é€\U0001f600\0") for _ in range(length))


def _element(rng: random.Random, field: Field, wire: str, version: int, numbers: Numbers) -> Any:
    if wire == "struct":
        assert field.item is not None
        return random_struct(field.item, version, rng, numbers)
    if wire == "string":
        return _text(rng)
    if wire == "uuid":
        return rng.randbytes(16)
    if wire == "bool":
        return rng.random() < 0.5
    if wire == "float64":
        return rng.choice([0.0, -1.5, rng.random() * 1e300])
    if wire in FIXED:
        chosen = numbers(rng, field)
        return _integer(rng, wire) if chosen is None else chosen
    return rng.randbytes(rng.choice([0, 1, 127, 128, 1000]))


def random_struct(
    cls: type[Struct], version: int, rng: random.Random, numbers: Numbers = lambda rng, field: None
) -> Any:
    """A struct of `cls`; `numbers` may choose the value of an integer field (None: any)."""
    values: dict[str, Any] = {}
    for field in cls.SCHEMA.fields:
        if not field.present(version) or rng.random() < 0.1:
            continue
        if field.is_nullable(version) and rng.random() < 0.25:
            values[field.name] = None
        elif field.wire.startswith("[]"):
            count = rng.choice([0, 1, 1, 2, 3] if field.wire == "[]struct" else [0, 1, 2, 15, 16, 130])
            values[field.name] = [
                _element(rng, field, field.wire[2:], version, numbers) for _ in range(count)
            ]
        else:
            values[field.name] = _element(rng, field, field.wire, version, numbers)
    found = cls(**values)
    for field in cls.SCHEMA.fields:
        # A null default that this version cannot carry.
        if getattr(found, field.name) is None and field.present(version) and not field.is_nullable(version):
            empty: Any = [] if field.wire.startswith("[]") else "" if field.wire == "string" else b""
            setattr(found, field.name, empty)
    return found
