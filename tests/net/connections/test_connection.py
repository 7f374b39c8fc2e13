"""A connection sends a bounded number of bytes in one turn, however many the socket would take."""

import os
from collections import deque
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbroker.net.connections.connection import AT_ONCE, GATHER, Connection, FilePart, Part, held_bytes


def connection() -> Connection:
    return Connection(cast(Any, None), -1, 0, cast(Any, None))


@pytest.mark.parametrize(
    "parts",
    [
        [bytes(5 * AT_ONCE + 3)],
        [bytes(AT_ONCE // 3)] * 16,
        [b"head", memoryview(bytes(3 * AT_ONCE)), bytearray(b"end")],
    ],
)
def test_a_long_answer_leaves_in_several_turns(parts: list[Part], monkeypatch: pytest.MonkeyPatch) -> None:
    taken = bytearray()

    def writev(_: int, buffers: list[Any]) -> int:
        for buffer in buffers:
            taken.extend(buffer)
        return sum(map(len, buffers))

    monkeypatch.setattr(os, "writev", writev)
    size = sum(len(part) for part in parts)
    one = connection()
    sent = [one.send(parts)]
    while one.unsent:
        sent.append(one.flush())
    assert max(sent) <= AT_ONCE
    assert len(sent) == -(-size // AT_ONCE)
    assert len(taken) == sum(sent) == size


class Socket:
    """Takes so many bytes with each call, the last number again and again; 0: it is full. file: the
    content of every file."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, limits: list[int], file: bytes = b"") -> None:
        self.limits = limits
        self.file = file
        self.taken = bytearray()
        for name in ("write", "writev", "sendfile"):
            monkeypatch.setattr(os, name, getattr(self, name))

    def write(self, _: int, data: Any) -> int:
        limit = self.limits.pop(0) if len(self.limits) > 1 else self.limits[0]
        if not limit:
            raise BlockingIOError
        self.taken += bytes(data)[:limit]
        return min(len(data), limit)

    def writev(self, fd: int, buffers: list[Any]) -> int:
        assert len(buffers) <= GATHER
        return self.write(fd, b"".join(map(bytes, buffers)))

    def sendfile(self, fd: int, _: int, position: int, count: int) -> int:
        found = self.file[position : position + count]
        return self.write(fd, found) if found else 0


@pytest.mark.parametrize("limits", [[3, 99], [0, 2, 0, 99], [99]])
def test_the_bytes_that_a_socket_does_not_take_follow_later(
    limits: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    socket, one = Socket(monkeypatch, limits), connection()
    sent = one.send([b"answer"])
    assert socket.taken == b"answer"[:sent]
    while one.unsent:
        sent += one.flush()
    assert (socket.taken, sent) == (b"answer", 6)


def test_an_answer_waits_for_the_bytes_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    socket, one = Socket(monkeypatch, [3, 99]), connection()
    one.send([b"first"])
    assert one.send([b"second"]) == 8
    assert socket.taken == b"firstsecond"


FILE = bytes(range(200))


@given(
    st.lists(
        st.one_of(st.binary(max_size=40), st.tuples(st.integers(0, 100), st.integers(1, 99))), min_size=1
    ),
    st.lists(st.integers(0, 50), max_size=30),
)
def test_every_byte_is_sent_once_and_in_order(
    answer: list[bytes | tuple[int, int]], limits: list[int]
) -> None:
    expected, parts = b"", list[Part]()
    for each in answer:
        if isinstance(each, bytes):
            expected += each
            parts.append(each)
        else:
            position, length = each
            expected += FILE[position : position + length]
            parts.append(FilePart(cast(Any, SimpleNamespace(fd=-1)), position, length))
    with pytest.MonkeyPatch.context() as monkeypatch:
        socket, one = Socket(monkeypatch, [*limits, 70], FILE), connection()
        sent = one.send(parts)
        while one.unsent:
            sent += one.flush()
    assert (socket.taken, sent) == (expected, len(expected))


def test_a_file_that_became_shorter_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    Socket(monkeypatch, [99], b"abc")
    with pytest.raises(OSError, match="became shorter"):
        connection().send([FilePart(cast(Any, SimpleNamespace(fd=-1)), 0, 5)])


def test_the_rest_of_a_long_answer_is_estimated() -> None:
    file: Any = FilePart(SimpleNamespace(fd=0), 0, 1 << 40)
    assert held_bytes(deque()) == 0
    assert held_bytes(deque([b"123", file, memoryview(b"45")])) == 5
    assert held_bytes(deque([b"12345678", file] * 50_000)) == 400_000
