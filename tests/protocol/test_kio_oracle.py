"""The kio package, an independent codec made from the same schemas, reads and writes what we write
and read."""

import dataclasses
import datetime
import importlib
import inspect
import random
from functools import cache
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.index import api_key_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from kbroker.protocol.codec import decode_exact, encode
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.generate.overrides import kafka_name
from kbroker.protocol.messages import request_class, response_class
from kbroker.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from kbroker.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from kbroker.protocol.messages.index import APIS
from kbroker.protocol.messages.request_header import RequestHeader
from kbroker.protocol.messages.response_header import ResponseHeader
from kbroker.protocol.schema import Field, Struct
from tests.protocol.random_messages import random_struct, versions

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MILLISECOND = datetime.timedelta(milliseconds=1)

CASES: list[tuple[type[Struct], str, str]] = [
    (request_class(key), api, "request") for key, api in api_key_map.items() if key in APIS
] + [(response_class(key), api, "response") for key, api in api_key_map.items() if key in APIS]
CASES += [
    (RequestHeader, "request_header", "header"),
    (ResponseHeader, "response_header", "header"),
    (ConsumerProtocolAssignment, "consumer_protocol_assignment", "data"),
    (ConsumerProtocolSubscription, "consumer_protocol_subscription", "data"),
]


@cache
def kio_class(api: str, version: int, kind: str) -> Any:
    module = importlib.import_module(f"kio.schema.{api}.v{version}.{kind}")
    members: list[tuple[str, Any]] = inspect.getmembers(module, inspect.isclass)
    (found,) = [
        c for _, c in members if c.__module__ == module.__name__ and c.__type__ is getattr(EntityType, kind)
    ]
    return found


def kio_can_hold(rng: random.Random, field: Field) -> int | None:
    """kio knows no unknown error code, and no time before 1970 or after 9999."""
    if field.name.endswith("error_code"):
        return int(rng.choice(list(ErrorCode)))
    if field.wire == "int64" and ("time" in field.name or field.name.endswith("_ms")):
        return rng.choice([0, 1000, rng.randrange(2**37) * 1000])
    return None


def plain(value: Any) -> Any:
    """A value of kio as ours."""
    if isinstance(value, datetime.timedelta):
        return value // MILLISECOND
    if isinstance(value, datetime.datetime):
        return (value - EPOCH) // MILLISECOND
    if isinstance(value, UUID):
        return value.bytes
    return value


def same(ours: Any, theirs: Any, message: str, field: Field | None = None) -> None:
    if isinstance(ours, Struct):
        known = {f.name: f for f in ours.SCHEMA.fields}
        for raw in dataclasses.fields(theirs):
            name = kafka_name(message, raw.name)
            name = name if name in known else name + "_ms"
            same(getattr(ours, name), getattr(theirs, raw.name), message, known[name])
    elif isinstance(ours, list):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            same(one, other, message)
    elif theirs is None and ours is not None:
        assert ours == bytes(16) or (field is not None and ours == field.default == -1)
    else:
        assert plain(theirs) == ours


@pytest.mark.parametrize(("cls", "api", "kind"), CASES, ids=[case[0].__name__ for case in CASES])
@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 2**64 - 1))
def test_kio_reads_and_writes_the_same_bytes(cls: type[Struct], api: str, kind: str, seed: int) -> None:
    rng = random.Random(seed)
    for version in versions(cls):
        ours = random_struct(cls, version, rng, kio_can_hold)
        data = encode(ours, version)
        theirs_class = kio_class(api, version, kind)
        theirs = entity_reader(theirs_class)(data, 0)[0]
        same(ours, theirs, cls.__name__)
        out = bytearray()
        entity_writer(theirs_class)(_Sink(out), theirs)
        assert bytes(out) == data
        assert decode_exact(cls, version, bytes(out)) == ours


class _Sink:
    """What kio's writers write to."""

    def __init__(self, out: bytearray) -> None:
        self.out = out

    def write(self, data: bytes) -> int:
        self.out += data
        return len(data)
