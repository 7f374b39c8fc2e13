"""Messages between processes: whatever comes over a link is a message, or closes the link."""

import random
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import msgspec.inspect as mi

from kbroker.ipc import block as blocks
from kbroker.ipc.link import BLOCK, FrameReader, frame_block
from kbroker.ipc.long_messages import Outgoing
from kbroker.ipc.messages import LongRequest, Reply
from kbroker.ipc.wire import LENGTH, MESSAGES, REPLIES, Malformed, pack
from kbroker.protocol.schema import ProtocolError
from tests.fuzz.any_request import SERVED, any_request
from tests.fuzz.guided import parts
from tests.fuzz.guided.target import Mix, Run, Target

PEER = blocks.Peer(7, "PLAINTEXT", "127.0.0.1", 5, "User:a", 0, "name", "1.0")
DECODERS: list[Any] = [
    msgspec.msgpack.Decoder(found | None) for found in REPLIES.values() if found is not None
]
MAX_DEPTH = 4


def _prepare(_: Path) -> Run:
    def run(data: bytes) -> None:
        pieces = parts.split(data)
        for of_requests in (True, False):
            reader = FrameReader(_decoder, _taker(of_requests), of_requests)
            with suppress(Malformed):
                for piece in pieces:
                    for call_id, body in reader.feed(piece):
                        assert isinstance(call_id, int)
                        if isinstance(body, Reply):
                            continue
                        assert isinstance(body, MESSAGES), type(body)

    return run


def _decoder(call_id: int) -> Any:
    """The reply's type by its call; none for every fifth call."""
    return None if call_id % 5 == 4 else DECODERS[call_id % len(DECODERS)]


def _taker(of_requests: bool) -> Any:
    def take(block: bytearray) -> None:
        if not of_requests:
            list(blocks.answers(block))
            return
        for _, peer, frame in blocks.requests(block):
            with suppress(ProtocolError):
                blocks.client_request(peer, frame)

    return take


def sample(kind: mi.Type, depth: int = 0) -> Any:
    """A value of a type, as MessagePack has it."""
    if isinstance(kind, mi.UnionType):
        return sample(kind.types[0 if depth % 2 else -1], depth)
    if isinstance(kind, mi.ListType | mi.VarTupleType | mi.SetType | mi.FrozenSetType):
        return [] if depth > MAX_DEPTH else [sample(kind.item_type, depth + 1)]
    if isinstance(kind, mi.TupleType):
        return [sample(one, depth + 1) for one in kind.item_types]
    if isinstance(kind, mi.DictType):
        return (
            {}
            if depth > MAX_DEPTH
            else {sample(kind.key_type, depth + 1): sample(kind.value_type, depth + 1)}
        )
    if isinstance(kind, mi.StructType):
        values = [sample(field.type, depth + 1) for field in kind.fields]
        if kind.array_like:
            return values if kind.tag is None else [kind.tag, *values]
        return dict(zip((field.encode_name for field in kind.fields), values, strict=True))
    if isinstance(kind, mi.NamedTupleType):
        return [sample(field.type, depth + 1) for field in kind.fields]
    if isinstance(kind, mi.EnumType):
        return next(iter(kind.cls)).value
    simple: dict[type, Any] = {
        mi.IntType: 1, mi.FloatType: 1.5, mi.BoolType: True, mi.StrType: "a", mi.BytesType: b"b",
        mi.MemoryViewType: b"b", mi.ByteArrayType: b"b", mi.AnyType: 1,
    }  # fmt: skip
    return simple.get(type(kind))


def _seeds(rng: random.Random) -> Iterable[bytes]:
    for number, cls in enumerate(MESSAGES):
        payload = msgspec.msgpack.encode([[number, sample(mi.type_info(cls))]])
        frame = LENGTH.pack(len(payload)) + payload
        yield parts.join([frame])
        yield parts.join([frame[:3], frame[3:] + frame])
    for number, decoder in enumerate(DECODERS):
        value = sample(mi.type_info(decoder.type))
        payload = msgspec.msgpack.encode([[0, ["Reply", number, value, 0, ""]]])
        yield parts.join([LENGTH.pack(len(payload)) + payload])
    peer = blocks.pack_peer(PEER)
    for key, version in SERVED[::7]:
        frame = any_request(rng, key, version)[4:]
        content = blocks.padded(peer) + blocks.padded(frame)
        head = blocks.HEAD.pack(blocks.HEAD_BYTES + len(content), -5, len(peer), len(frame))
        yield parts.join([frame_block(head + content)])
    answer = blocks.pack_answer(-5, b"\0\0\0\4\0\0\0\7")
    yield parts.join([frame_block(answer + blocks.pack_answer(-6, None))])
    request = blocks.client_request(peer, any_request(rng, 3, 1)[4:])
    pieces = Outgoing(9, [b"abc" * 10])
    yield parts.join([pack(9, LongRequest(request, 30)), pieces.next_piece()])
    yield parts.join([Outgoing(8, [b"answer"]).next_piece()])
    yield parts.join([pack(0, Reply(1, None, 5, "text"))])
    for depth in (10, 3000):  # a list in a list in a list, in place of a value and after a member
        nested = b"\x91" * depth + b"\xc0"
        for tail in (b"\xa0", b"\xa0" + nested):
            reply = (
                b"\x91\x92\0" + bytes((0x95 + (tail != b"\xa0"),)) + b"\xa5Reply\1" + nested + b"\0" + tail
            )
            yield parts.join([LENGTH.pack(len(reply)) + reply])


def _change(data: bytes, rng: random.Random, mix: Mix) -> bytes:
    """Mostly with the length of what follows it."""

    def frame(piece: bytes) -> bytes:
        if len(piece) < 4 or rng.random() < 0.2:
            return mix(piece)
        found = mix(piece[4:])
        (word,) = LENGTH.unpack(piece[:4])
        kind = word & (BLOCK | BLOCK >> 1)
        if rng.random() < 0.05:
            kind = rng.choice((0, BLOCK, BLOCK >> 1))
        if kind == BLOCK and rng.random() < 0.5:
            found += bytes(-len(found) & 7)
        return LENGTH.pack(len(found) | kind) + found

    return parts.change(data, rng, frame)


TARGETS = (
    Target(
        "messages",
        "bytes of a link between two processes: messages, replies, blocks, pieces of long messages",
        ("kbroker.ipc.link", "kbroker.ipc.wire", "kbroker.ipc.block", "kbroker.ipc.long_messages"),
        _prepare,
        _seeds,
        _change,
    ),
)
