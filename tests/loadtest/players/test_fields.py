"""What is read out of the messages' memory is what their methods say."""

import random
from typing import Any

import numpy as np
from confluent_kafka import Message

from loadtest.players.fields import fields, layout, read, request_message


def messages(count: int) -> list[Message]:
    made: Any = Message
    chance = random.Random(count)
    return [
        made(
            "t",
            chance.randrange(1 << 31),
            chance.randrange(1 << 62),
            b"k",
            b"v" * chance.randrange(99),
            None,
            None,
            stamp,
        )
        for stamp in ((1, chance.randrange(1 << 62)) for _ in range(count))
    ]


def test_the_layout_of_this_client_library_is_known() -> None:
    assert layout() is not None


def test_fields_read_are_those_requested() -> None:
    for count in (1, 2, 777):
        given = messages(count)
        own, theirs = fields(given), request_message(given)
        assert own.partitions.tolist() == theirs.partitions.tolist()
        assert own.offsets.tolist() == theirs.offsets.tolist()
        assert own.timestamps_ms.tolist() == theirs.timestamps_ms.tolist()
        assert [column.dtype for column in own] == [np.int32, np.int64, np.int64]


def test_messages_far_apart_and_out_of_order_in_memory() -> None:
    given = messages(500)
    held = [np.zeros(1 << 16) for _ in range(100)]  # the next ones lie elsewhere
    given += messages(500)[::-1]
    random.Random(1).shuffle(given)
    places = layout()
    assert places is not None
    assert read(given, places).offsets.tolist() == [message.offset() for message in given]
    assert len(held) == 100
