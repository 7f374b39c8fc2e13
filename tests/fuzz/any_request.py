"""A valid request of any API and version, in the names of a small world that random requests may
spoil."""

import random
from collections.abc import Sequence
from typing import Any

from kbroker.protocol.frame import encode_request
from kbroker.protocol.messages import request_class
from kbroker.protocol.messages.index import APIS
from kbroker.protocol.schema import Field, Struct
from tests.fuzz.hot_requests import any_batch
from tests.protocol.random_messages import random_struct

VICTIMS = ("victim", "other-victim")
NAMES = (*VICTIMS, *VICTIMS, "group-1", "group-2", "tx-1", "consumer", "range", "member", "")
MAX_PARTITIONS = 3  # of a topic that a random request makes
COUNTS = ("num_partitions", "count")  # fields that ask for partitions
SMALL = ("partition_index", "partition", "index", "generation_id", "member_epoch", "producer_epoch", "epoch")


def number_of(rng: random.Random, field: Field) -> int | None:
    """Numbers that reach further than any number would: partitions that exist, waits that end."""
    if field.name in COUNTS:
        return rng.choice((1, MAX_PARTITIONS, -1, 0))
    if field.name.endswith("_ms") and field.wire == "int32":
        return rng.choice((0, 1, 50, -1))
    if rng.random() < 0.5 and (field.name in SMALL or field.wire.startswith("[]")):
        return rng.choice((0, 0, 1, -1))
    return None


def name_things(found: Struct, version: int, rng: random.Random, ids: Sequence[bytes]) -> None:
    """Give most strings and records of a struct a meaning, in place."""
    for field in found.SCHEMA.fields:
        if not field.present(version):
            continue
        value: Any = getattr(found, field.name)
        if value is None:
            continue
        if field.wire == "struct":
            name_things(value, version, rng, ids)
        elif field.wire == "[]struct":
            for each in value:
                name_things(each, version, rng, ids)
        elif field.wire == "string" and rng.random() < 0.8:
            setattr(found, field.name, rng.choice(NAMES))
        elif field.wire == "[]string":
            setattr(found, field.name, [rng.choice(NAMES) for _ in value])
        elif field.wire == "uuid" and ids and rng.random() < 0.8:
            setattr(found, field.name, rng.choice(ids))
        elif field.wire == "records":
            setattr(found, field.name, any_batch(rng) or b"")


def any_request(rng: random.Random, key: int, version: int, ids: Sequence[bytes] = ()) -> bytes:
    """A frame with its size. ids: of topics that there are."""
    request = random_struct(request_class(key), version, rng, number_of)
    name_things(request, version, rng, ids)
    client = rng.choice((None, "", "fuzz", "\u00e9"))
    return encode_request(key, version, rng.getrandbits(31), client, request)


SERVED = [
    (key, version) for key, api in APIS.items() for version in range(api.min_version, api.max_version + 1)
]
