"""The answers to a producer and the records of a consumer arrive in the history as they were,
failures too."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from confluent_kafka import KafkaError, Message

from loadtest.clock import Clock
from loadtest.history import SendStatus
from loadtest.page import Page, Slot, Times
from loadtest.players.inbox import Inbox
from loadtest.players.outbox import INTENT_ROWS, RING, Intents, Outbox
from loadtest.players.values import Keys, Values, bodies
from loadtest.run import load_intents
from loadtest.writer import HistoryWriter
from tests.loadtest.plain_judge import rows

RUN = 77


@pytest.fixture
def page(tmp_path: Path) -> Page:
    return Page(tmp_path / "player.page", create=True)


def values() -> Values:
    return Values(RUN, 5, Keys(100, 0.0, 1), 3, bodies(100, 100, 1), False)


def message(*fields: Any) -> Message:
    """A message as the client library gives it; its type stubs do not know the constructor."""
    made: Any = Message
    return made(*fields)


def report(block: Any, at: int, offset: int, error: KafkaError | None = None) -> Message:
    return message(
        "t",
        int(block.partitions[at]),
        offset,
        block.key_texts[at],
        block.values[at],
        None,
        error,
        (1, 5),
        0.004,
    )


def test_each_report_settles_its_own_record_whatever_the_order(tmp_path: Path, page: Page) -> None:
    history, clock = HistoryWriter(tmp_path, "p000005"), Clock()
    outbox = Outbox(5, "t", page, clock, history, Intents(tmp_path, 5, clock))
    block = values().make(np.full(4, clock.now_ns()))
    outbox.add(block)
    delivered = outbox.on_delivery()
    for at, error in ((2, None), (0, None), (3, KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))):
        delivered(error, report(block, at, 100 + at, error))
    assert outbox.settle() == 3
    assert outbox.pending == 1
    outbox.give_up(KafkaError._MSG_TIMED_OUT)
    history.close()
    sends = rows(tmp_path, "sends")
    assert sends["seq"].tolist() == [2, 0, 3, 1]
    assert sends["offset"].tolist() == [102, 100, -1, -1]
    status = [SendStatus.ACKED, SendStatus.ACKED, SendStatus.FAILED, SendStatus.UNKNOWN]
    assert sends["status"].tolist() == status
    assert (page[Slot.ACKED], page[Slot.FAILED], page.times(Times.ACK).sum()) == (2, 2, 2)


def test_an_acknowledgement_has_the_time_at_which_it_came(tmp_path: Path, page: Page) -> None:
    """Not a time before it: an order in real time is judged by it."""
    history, clock = HistoryWriter(tmp_path, "p000005"), Clock()
    outbox = Outbox(5, "t", page, clock, history, Intents(tmp_path, 5, clock))
    block = values().make(np.full(2, clock.now_ns()))
    outbox.add(block)
    delivered = outbox.on_delivery()
    came = []
    for at in range(2):
        came.append(clock.now_ns())
        delivered(None, report(block, at, at))
    came.append(clock.now_ns())
    outbox.settle()
    outbox.give_up(0)
    history.close()
    acked = rows(tmp_path, "sends")["acked_ns"].tolist()
    assert came[0] <= acked[0] <= came[1] <= acked[1] <= came[2]


def test_numbers_are_announced_before_they_are_sent(tmp_path: Path, page: Page) -> None:
    clock = Clock()
    outbox = Outbox(5, "t", page, clock, None, Intents(tmp_path, 5, clock))
    outbox.add(values().make(np.zeros(3, np.int64)))
    assert [(intent["first_seq"] <= 0, intent["last_seq"] >= 2) for intent in load_intents(tmp_path)] == [
        (True, True)
    ]


def test_a_record_that_is_never_settled_keeps_its_place(tmp_path: Path, page: Page) -> None:
    clock = Clock()
    outbox, maker = Outbox(5, "t", page, clock, None, Intents(tmp_path, 5, clock)), values()
    stuck = maker.make(np.zeros(1, np.int64))
    outbox.add(stuck)
    sent = 1
    while (room := min(outbox.room(maker.next_seq), 20_000)) > 0:
        block = maker.make(np.zeros(room, np.int64))
        outbox.add(block)
        delivered = outbox.on_delivery()
        for at in range(len(block)):
            delivered(None, report(block, at, at))
        outbox.settle()
        sent += room
    assert sent == RING
    assert outbox.pending == 1


def test_altered_and_foreign_values_are_not_intact(tmp_path: Path, page: Page) -> None:
    history = HistoryWriter(tmp_path, "c000001")
    inbox = Inbox(RUN, 1, page, Clock(), history)
    block = values().make(np.zeros(3, np.int64))
    altered = block.values[1][:-1] + bytes([block.values[1][-1] ^ 1])
    given = [block.values[0], altered, b"foreign", block.values[2]]
    messages = [message("t", 1, offset, b"k0000001", value) for offset, value in enumerate(given)]
    messages.append(message("t", 1, 4, None, None))
    inbox.take("t", messages, lambda partition: 9)
    history.close()
    reads = rows(tmp_path, "reads")
    assert reads["intact"].tolist() == [True, False, False, True, False]
    assert reads["seq"].tolist() == [0, 1, -1, 2, -1]
    assert reads["key"].tolist() == [1, 1, 1, 1, -1]
    assert reads["assignment"].tolist() == [9] * 5
    assert inbox.next_offsets == {1: 5}


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (KafkaError.MSG_SIZE_TOO_LARGE, SendStatus.FAILED),
        (KafkaError.INVALID_RECORD, SendStatus.FAILED),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, SendStatus.FAILED),
        (KafkaError.NOT_LEADER_FOR_PARTITION, SendStatus.UNKNOWN),
        (KafkaError.REQUEST_TIMED_OUT, SendStatus.UNKNOWN),
        (KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, SendStatus.UNKNOWN),
        (KafkaError._MSG_TIMED_OUT, SendStatus.UNKNOWN),
        (KafkaError._PURGE_INFLIGHT, SendStatus.UNKNOWN),
        (KafkaError._PURGE_QUEUE, SendStatus.UNKNOWN),
    ],
)
def test_only_a_record_that_no_attempt_can_have_written_has_surely_failed(
    code: int, status: SendStatus
) -> None:
    outbox: Any = object.__new__(Outbox)
    last = KafkaError(code)
    found, codes = outbox._failures([None, last, None])
    assert found.tolist() == [SendStatus.ACKED, status, SendStatus.ACKED]
    assert codes.tolist() == [0, code, 0]
    assert outbox.last_error is last


def test_numbers_are_announced_in_ranges_without_gaps(tmp_path: Path) -> None:
    intents = Intents(tmp_path, 5, Clock())
    for next_seq in (1, INTENT_ROWS, INTENT_ROWS, INTENT_ROWS + 1, 4 * INTENT_ROWS):
        intents.announce(next_seq)
    intents.close()
    found = [
        (intent["producer"], intent["first_seq"], intent["last_seq"]) for intent in load_intents(tmp_path)
    ]
    assert found == [(5, n * INTENT_ROWS, (n + 1) * INTENT_ROWS - 1) for n in range(4)]


def test_a_deleted_value_is_known_by_its_first_header(tmp_path: Path, page: Page) -> None:
    history = HistoryWriter(tmp_path, "c000001")
    inbox = Inbox(RUN, 1, page, Clock(), history)
    (value,) = values().make(np.zeros(1, np.int64)).values
    headers = [[("kl", value)], [("other", value)], [("other", b"x"), ("kl", value)], [("kl", None)], None]
    messages = [message("t", 0, offset, b"k0000001", None, listed) for offset, listed in enumerate(headers)]
    inbox.take("t", messages, lambda partition: 9, seen=list(range(100, 105)))
    history.close()
    reads = rows(tmp_path, "reads")
    assert reads["intact"].tolist() == [True, False, False, False, False]
    assert reads["producer"].tolist() == [5, -1, -1, -1, -1]
    assert reads["seen_ns"].tolist() == [100, 101, 102, 103, 104]
    assert [bool(each) for each in reads["header_sum"].tolist()] == [True, True, True, True, False]
