"""Records of coordinators, made odd: bytes damaged, fields set to their edges, lists thinned out or
doubled, keys and values exchanged, values gone."""

import random
import struct
from collections.abc import Sequence
from contextlib import suppress

from kbroker.control.coordinator.machine import Record
from kbroker.protocol.record_types import RecordTypes, decode_record, encode_value
from kbroker.protocol.schema import Field, ProtocolError, Struct
from tests.fuzz.mutation import mutated

BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}


def damaged_log(records: Sequence[Record], types: RecordTypes, rng: random.Random) -> list[Record]:
    """The records, about every third of them odd, some more than once or elsewhere."""
    out: list[Record] = []
    for record in records:
        if rng.random() < 0.05:
            out.append(rng.choice(records))
        out.append(_odd(record, records, types, rng) if rng.random() < 0.3 else record)
    if rng.random() < 0.2:
        rng.shuffle(out)
    return out


def _odd(record: Record, others: Sequence[Record], types: RecordTypes, rng: random.Random) -> Record:
    key, value = record.key, record.value
    action = rng.randrange(8)
    if action == 0:
        return Record(mutated(key, rng), value)
    if action == 1:
        return Record(struct.pack(">h", rng.choice((*types, 9, 18, 24, 32767, -1))) + key[2:], value)
    if action == 2:
        return Record(key, None if value is not None else rng.choice(others).value)
    if action == 3:
        return Record(key, rng.choice(others).value)
    if value is None:
        return record
    if action == 4:
        return Record(key, mutated(value, rng))
    return Record(key, _edged(key, value, types, rng))


def _edged(key: bytes, value: bytes, types: RecordTypes, rng: random.Random) -> bytes:
    """The value with some of its fields at their edges."""
    _, content = decode_record(types, key, value)
    assert content is not None
    for _ in range(rng.choice((1, 1, 2, 4))):
        _set_one(content, rng)
    with suppress(ProtocolError):
        return encode_value(content, struct.unpack_from(">h", value)[0])
    return mutated(value, rng)


def _set_one(content: Struct, rng: random.Random) -> None:
    field = rng.choice(content.SCHEMA.fields)
    found = getattr(content, field.name)
    if isinstance(found, list):
        if found and isinstance(found[0], Struct) and rng.random() < 0.6:
            _set_one(rng.choice(found), rng)
        else:
            setattr(content, field.name, _other_list(found, field, rng))
    elif isinstance(found, Struct):
        _set_one(found, rng)
    elif field.wire in BITS:
        top = 1 << (BITS[field.wire] - 1)
        setattr(content, field.name, rng.choice((-top, -2, -1, 0, 1, 2, 5, top - 2, top - 1)))
    elif field.wire == "string":
        setattr(content, field.name, rng.choice(("", None, "x", "t", "\0", "9" * 300)))
    elif field.wire == "bytes":
        setattr(content, field.name, rng.choice((b"", mutated(bytes(found or b"1"), rng))))


def _other_list(found: list[object], field: Field, rng: random.Random) -> list[object] | None:
    top = 1 << (BITS.get(field.wire.removeprefix("[]"), 8) - 1)
    numbers: list[object] = [rng.choice((-top, -1, 0, 1, 7, top - 1)) for _ in range(3)]
    choices: list[list[object] | None] = [[], found * 2, found[1:], found[::-1], None]
    return numbers if field.wire.removeprefix("[]") in BITS else rng.choice(choices)
