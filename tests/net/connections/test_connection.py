"""A connection sends a bounded number of bytes in one turn, however many the socket would take."""

import os
from typing import Any, cast

import pytest

from kbroker.net.connections.connection import AT_ONCE, Connection, Part


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
