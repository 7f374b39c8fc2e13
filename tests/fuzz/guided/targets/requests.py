"""Frames of clients: by themselves, as answers of a broker, and as the bytes of a connection."""

import random
import struct
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from kbroker.kernels import plain
from kbroker.protocol.codec import decode, encode
from kbroker.protocol.frame import encode_request, encode_response, parse_request, parse_response
from kbroker.protocol.messages import request_class, response_class
from kbroker.protocol.messages.index import APIS
from kbroker.protocol.schema import ProtocolError, Struct
from tests.fuzz.any_request import SERVED, any_request
from tests.fuzz.guarded_memory import GuardedMemory
from tests.fuzz.guided import parts
from tests.fuzz.guided.network_room import TOPICS, NetworkRoom, check_answers
from tests.fuzz.guided.target import Mix, Run, Target
from tests.fuzz.hot_requests import FETCH_VERSIONS, PRODUCE_VERSIONS, fetch_request, produce_request
from tests.fuzz.parsers import MIN_FRAME, Parsers
from tests.net.requests import FETCH, PRODUCE
from tests.protocol.random_messages import random_struct

HEAD = struct.Struct(">hh")
GUARDED_BYTES = 1 << 16


def decoded(cls: type[Struct], version: int, data: bytes, start: int) -> None:
    """A struct that can be decoded has the same bytes each time it is encoded. Raises
    ProtocolError."""
    found, _ = decode(cls, version, data, start)
    once = encode(found, version)
    again, end = decode(cls, version, once)
    assert end == len(once), f"{len(once) - end} bytes after the struct"
    assert encode(again, version) == once, "encoded differently the second time"


class _Frames:
    """The decoder of a request, and the kernels that parse Produce and Fetch."""

    def __init__(self, _: Path) -> None:
        self._parsers = Parsers(TOPICS)
        self._memory = None if plain.ACTIVE else GuardedMemory(GUARDED_BYTES)

    def __call__(self, frame: bytes) -> None:
        try:
            header, start = parse_request(frame)
            decoded(request_class(header.api_key), header.api_version, frame, start)
        except ProtocolError:
            pass
        if MIN_FRAME <= len(frame) <= GUARDED_BYTES:
            key, version = HEAD.unpack_from(frame)
            array = np.frombuffer(frame, np.uint8).copy()  # numpy's memory has bounds that are checked
            address = array.ctypes.data if self._memory is None else self._memory.at_the_end(frame)
            if key == PRODUCE and version in PRODUCE_VERSIONS:
                _, count, pushed = self._parsers.produce(int(address), len(frame))
                assert pushed <= count
            elif key == FETCH and version in FETCH_VERSIONS:
                self._parsers.fetch(int(address), len(frame))


def _request_seeds(rng: random.Random) -> Iterable[bytes]:
    for key, version in SERVED:
        for _ in range(2):
            yield any_request(rng, key, version)[4:]
    for version in PRODUCE_VERSIONS:
        yield produce_request(rng, version)[4:]
    for version in FETCH_VERSIONS:
        yield fetch_request(rng, version)[4:]


def _answers(_: Path) -> Run:
    def run(data: bytes) -> None:
        if len(data) < HEAD.size:
            return
        key, version = HEAD.unpack_from(data)
        if key not in APIS:
            return
        frame = data[HEAD.size :]
        try:
            start = parse_response(frame, key, version)[1]
            decoded(response_class(key), version, frame, start)
        except ProtocolError:
            pass

    return run


def _answer_seeds(rng: random.Random) -> Iterable[bytes]:
    for key, version in SERVED:
        for _ in range(2):
            response = random_struct(response_class(key), version, rng)
            yield HEAD.pack(key, version) + encode_response(key, version, 1, response)[4:]


def _connection(_: Path) -> Run:
    rooms = [NetworkRoom()]

    def run(data: bytes) -> None:
        pieces = [piece for piece in parts.split(data) if piece]
        try:
            answered = rooms[-1].give(pieces)
        except AssertionError:  # what an input has left there is not of the next one
            rooms[:] = [NetworkRoom()]
            raise
        check_answers(b"".join(pieces), answered)

    return run


def _connection_seeds(rng: random.Random) -> Iterable[bytes]:
    for key, version in SERVED:
        request = random_struct(request_class(key), version, rng)
        yield parts.join([encode_request(key, version, 7, "fuzz", request)])
    for version in PRODUCE_VERSIONS:
        yield parts.join([produce_request(rng, version), fetch_request(rng, FETCH_VERSIONS[version % 8])])
    for version in FETCH_VERSIONS:
        stream = fetch_request(rng, version) + produce_request(rng, 9)
        cut = rng.randrange(len(stream))
        yield parts.join([stream[:cut], stream[cut:]])
    yield parts.join([b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"])


def _resized(data: bytes, rng: random.Random, mix: Mix) -> bytes:
    """Mostly the size in front of a frame is that of its bytes."""

    def frame(piece: bytes) -> bytes:
        if len(piece) < 8 or rng.random() < 0.2:
            return mix(piece)
        found = mix(piece[4:])
        return struct.pack(">i", len(found)) + found

    return parts.change(data, rng, frame)


PARSING = ("kbroker.protocol.frame", "kbroker.protocol.generated", "kbroker.protocol.codec")
KERNELS = (
    "kbroker.net.produce.",
    "kbroker.net.fetch.",
    "kbroker.net.rows",
    "kbroker.kernels.wire",
    "kbroker.kernels.batches",
    "kbroker.kernels.batch_header",
)
TARGETS = (
    Target(
        "requests",
        "request frames: the decoders of all APIs and versions, the kernels that parse Produce and Fetch",
        (*PARSING, *KERNELS),
        _Frames,
        _request_seeds,
    ),
    Target(
        "answers",
        "response frames, as the commands and the console read them",
        PARSING,
        _answers,
        _answer_seeds,
    ),
    Target(
        "connections",
        "the bytes of a connection: receiving, cutting, produce, fetch and dispatch of a network process",
        ("kbroker.net.", *PARSING, *KERNELS),
        _connection,
        _connection_seeds,
        _resized,
        max_bytes=8192,
    ),
)
