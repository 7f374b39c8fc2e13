"""Encoding of the messages of links: typed, with size limits, and never code.

A frame of messages is a 4-byte little-endian length and MessagePack of a list of ``(call_id,
message)``. A message is one of those in MESSAGES, named by its type. A Reply's value is decoded as
the result type of its call (REPLIES). Everything else is `Malformed`. `link.py` cuts the frames.
"""

import struct
from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from operator import or_
from typing import Any, Final, Union

import msgspec
import numpy as np
from msgspec import Raw, Struct

from kbroker.ipc import cleaning_messages as clm
from kbroker.ipc import client_messages as cm
from kbroker.ipc import http_messages as hm
from kbroker.ipc import login_messages as lm
from kbroker.ipc import messages as m
from kbroker.ipc import move_messages as mm
from kbroker.ipc.messages import Reply

LENGTH: Final = struct.Struct("<I")

REPLIES: Final[dict[type, Any]] = {
    m.ClientRequest: bytes | None,
    m.LongRequest: bytes | None,
    m.VerifyTransaction: tuple[tuple[int, str | None], ...],
    lm.FindScramCredential: m.ScramCredential,
    lm.FindTokenCredential: lm.TokenCredential,
    lm.AttemptLogin: lm.LoginTurn,
    lm.LoginForClient: int,
    clm.BrokerSettings: dict[str, str],
    clm.CleanableLogs: tuple[clm.CleanableLog, ...],
    clm.BeginCleaning: clm.CleaningJob | None,
    clm.SwapSegments: bool,
    clm.EndCleaning: None,
    hm.GroupsQuery: tuple[hm.GroupSummary, ...],
    hm.ClientsQuery: hm.ClientMetrics,
    cm.ConnectedQuery: cm.ConnectedClients,
    m.Image: None,
    m.Lead: bool,
    m.Follow: None,
    m.OpenPartition: None,
    m.ClosePartition: None,
    m.ConfigurePartition: None,
    m.DeleteRecords: int,
    m.SyncLog: None,
    m.EpochEndOffset: tuple[int, int],
    m.DescribeProducers: tuple[tuple[tuple[int, ...], ...] | int, ...],
    m.SetLeaderEpoch: None,
    m.Settings: None,
    m.Drain: None,
    mm.BeginMove: None,
    mm.CancelMove: None,
    mm.MovesInProgress: tuple[mm.MoveProgress, ...],
    mm.SwitchMove: bool,
    mm.FinishMove: None,
}
"""The type of a reply's value when it is no error, by the call's type. AskWorker has the value of
the call that it forwards."""
SENT: Final = (
    m.Hello,
    hm.GroupsPage,
    m.ConnectionClosed,
    lm.LoginSucceeded,
    m.AuditEvents,
    cm.ClientReport,
    clm.AskWorker,
    mm.MoveCaughtUp,
    mm.MoveFailed,
)


class _Reply(Struct, frozen=True, array_like=True, tag="Reply"):
    """A reply as it arrives: the call decides the type of its value."""

    call_id: int
    value: Raw
    error: int
    message: str


MESSAGES: Final = (*REPLIES, *SENT)
_DECODERS: Final = {call: msgspec.msgpack.Decoder(Union[found, None]) for call, found in REPLIES.items()}  # noqa: UP007  None | None is none
_decode: Final = msgspec.msgpack.Decoder(
    list[tuple[int, reduce(or_, MESSAGES, _Reply)]]  # type: ignore[misc]
).decode

Decoder = msgspec.msgpack.Decoder[Any]


class Malformed(Exception):
    """Bytes that are no message: their link is closed."""


_PLAIN: Final[tuple[Any, ...]] = (bytes, str, int)


def _plain(value: Any) -> Any:
    """Convert numpy numbers from shared memory, and subclasses of bytes and str, to plain
    values."""
    if isinstance(value, np.generic):
        return value.item()
    for plain in _PLAIN:
        if isinstance(value, plain):
            return plain(value)
    raise NotImplementedError(f"{type(value).__name__} does not travel between processes")


_encode: Final = msgspec.msgpack.Encoder(enc_hook=_plain).encode


def reply_decoder(call: Any) -> Decoder:
    """The decoder of the value of the reply to this call."""
    return _DECODERS[type(call.body if isinstance(call, clm.AskWorker) else call)]


def pack(call_id: int, body: Any) -> bytes:
    """One frame of one message."""
    return pack_all([(call_id, body)])


def pack_all(messages: Iterable[tuple[int, Any]]) -> bytes:
    """One frame of several messages."""
    payload = _encode(messages)
    return LENGTH.pack(len(payload)) + payload


def unpack(payload: bytearray, decoder_of: Callable[[int], Decoder | None]) -> Iterator[tuple[int, Any]]:
    """The messages of a frame without its length. Raises Malformed.

    decoder_of: takes the decoder of the reply to a call; None for a call without a waiter, whose
    reply is skipped.
    """
    try:
        for call_id, body in _decode(payload):
            if type(body) is not _Reply:
                yield call_id, body
            elif (decoder := decoder_of(body.call_id)) is not None:
                value = None if body.error else decoder.decode(body.value)
                yield call_id, Reply(body.call_id, value, body.error, body.message)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed(str(error)) from error
