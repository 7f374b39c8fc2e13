"""Checks and counts a consumer's messages, thousands at a time, and passes them to its history."""

from collections.abc import Callable, Sequence

import numpy as np
from confluent_kafka import Message
from crc32c import crc32c

from loadtest.clock import Clock
from loadtest.delivered import Decoded, Delivered, Numbers
from loadtest.histogram import count
from loadtest.page import Page, Slot, Times
from loadtest.players.fields import fields
from loadtest.record import (
    CHECKED_FROM,
    HEADER,
    HEADER_BYTES,
    IDENTITY_HEADER,
    MAGIC,
    VERSION,
    header_sum,
    key_number,
)
from loadtest.writer import HistoryWriter

NOTHING = bytes(HEADER_BYTES)  # replaces a value that is too short for a load test's


def header_sums(messages: Sequence[Message]) -> Numbers:
    """loadtest.record.header_sum of each message's headers."""
    found = [header_sum(listed) if listed else 0 for listed in map(Message.headers, messages)]
    return np.array(found, np.int64)


def in_header(message: Message) -> bytes:
    """The identity of a tombstone, which has no value, in its first header."""
    headers = message.headers()
    name, value = headers[0] if headers else ("", None)
    return value if name == IDENTITY_HEADER and isinstance(value, bytes) else b""


def decoded(
    run: int, messages: Sequence[Message], known: dict[str | bytes | None, int] | None = None
) -> Decoded:
    """Decode delivered messages, at least one. known: numbers of keys that were seen before."""
    values: list[bytes] = [
        value if isinstance(value, bytes) else in_header(message)
        for message, value in zip(messages, map(Message.value, messages), strict=True)
    ]
    heads = np.frombuffer(
        b"".join([value[:HEADER_BYTES] if len(value) >= HEADER_BYTES else NOTHING for value in values]),
        HEADER,
    )
    sums = np.array([crc32c(value[CHECKED_FROM:]) for value in values], np.uint32)
    ours = (heads["magic"] == MAGIC) & (heads["version"] == VERSION)
    intact = ours & (heads["checksum"] == sums) & (heads["run"] == run)
    known = {} if known is None else known
    for key in {*map(Message.key, messages)}.difference(known):
        known[key] = key_number(key if isinstance(key, bytes) else None)
    keys = np.array([known[key] for key in map(Message.key, messages)], np.int64)
    size = sum(map(len, values))
    return Decoded(*fields(messages), keys, heads, ours, intact, header_sums(messages), size)


class Inbox:
    """Records delivered to one consumer life. Owner: that consumer; used by its only thread."""

    def __init__(
        self, run: int, consumer: int, page: Page | None, clock: Clock, history: HistoryWriter | None
    ) -> None:
        self._run = run
        self._consumer = consumer
        self._page = page
        self._clock = clock
        self._history = history
        self._keys: dict[str | bytes | None, int] = {}
        self.next_position = 0
        self.next_offsets: dict[int, int] = {}  # partition -> offset after the last record taken

    def take(
        self,
        topic: str,
        messages: Sequence[Message],
        assignment: Callable[[int], int],
        seen: Sequence[int] = (),
    ) -> Numbers:
        """Delivered records of one topic, in order of delivery; returns their keys.

        `assignment`: partition -> ordinal of the assignment it belongs to. `seen`: when each came; else now.
        """
        if not messages:
            return np.empty(0, np.int64)
        seen_ns = np.array(seen or [self._clock.now_ns()] * len(messages), np.int64)
        taken = decoded(self._run, messages, self._keys)
        partitions, offsets = taken.partitions, taken.offsets
        intended_ns = np.where(taken.ours, taken.heads["intended_ns"].astype(np.int64), -1)
        assignments = np.empty(int(partitions.max()) + 1, np.int32)
        for partition in np.unique(partitions).tolist():
            self.next_offsets[partition] = int(offsets[partitions == partition][-1]) + 1
            assignments[partition] = assignment(partition)
        if self._page is not None:
            self._page.add(Slot.SEEN, len(messages))
            self._page.add(Slot.SEEN_BYTES, taken.size)
            self._page.times(Times.END_TO_END)[:] += count((seen_ns - intended_ns)[taken.intact])
        if self._history is not None:
            delivered = Delivered(self._consumer, self.next_position, topic, assignments, taken, seen_ns)
            self._history.add("reads", delivered)
        self.next_position += len(messages)
        return taken.keys
