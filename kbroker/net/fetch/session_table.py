"""Fetch sessions that the kernel serves: Python lends them to it, and takes one back when it must
handle a request itself.

Runs in: network. Owner: the process. While a session is lent, its row and entries are valid, not
the Session object.
"""

import random

import numpy as np
from numpy.typing import NDArray

from kbroker.kernels.memory import INT32_MAX
from kbroker.net.fetch.fetch_session import FetchSession
from kbroker.net.network_tables import NetworkTables
from kbroker.net.rows import Context, SessionEntry
from kbroker.net.rows import Session as SessionRow
from kbroker.net.topics import Topics
from kbroker.protocol.schema import ZERO_UUID

Words = NDArray[np.int64]
MAX_PARTITIONS = 2048
NS_PER_MS = 1_000_000


class SessionTable:
    """Rows for at least ``slots`` sessions; the low bits of a session's id are its row."""

    def __init__(self, tables: NetworkTables, topics: Topics, slots: int, seed: int | None = None) -> None:
        self._tables = tables
        self._topics = topics
        size = 1 << max(4, slots.bit_length())
        self._rows: Words = SessionRow.table(size)
        self._free = list(range(size - 1, -1, -1))
        self._lent: dict[int, tuple[Words, Words]] = {}  # id -> entries, order
        # a client that guesses the id of another's session can end it
        self._random = random.SystemRandom() if seed is None else random.Random(seed)
        tables.words[Context.SESSIONS] = self._rows.ctypes.data
        tables.words[Context.SESSION_MASK] = size - 1

    def new_id(self) -> int:
        """An id for a session; its low bits are the number of the session's row."""
        row = self._free.pop()
        number = 0
        while number == 0:
            number = self._random.getrandbits(31) & ~(len(self._rows) - 1) & INT32_MAX | row
        return number

    def drop(self, number: int) -> None:
        """The session is over."""
        self._lent.pop(number, None)
        row = number & (len(self._rows) - 1)
        self._rows[row] = 0
        self._free.append(row)

    def used_ms(self, session: FetchSession) -> int:
        """The time of a session's last use, by the kernel or by Python."""
        return max(session.last_used_ms, int(self._row(session)[SessionRow.USED_NS]) // NS_PER_MS)

    def _row(self, session: FetchSession) -> Words:
        row: Words = self._rows[session.id & (len(self._rows) - 1)]
        return row

    def lend(self, session: FetchSession) -> None:
        """Let the kernel serve a session, if it can."""
        partitions = list(session.partitions.values())
        if not 0 < len(partitions) <= MAX_PARTITIONS:
            return
        entries: Words = SessionEntry.table(len(partitions))
        values = []
        for each in partitions:
            known = each.topic_id != ZERO_UUID
            topic = self._topics.by_id.get(each.topic_id) if known else self._topics.by_name.get(each.topic)
            if topic is None or not 0 <= each.partition < len(topic.partitions):
                return
            values.append(
                (
                    self._topics.row_of(topic.name),
                    each.partition,
                    each.fetch_offset,
                    each.max_bytes,
                    each.leader_epoch,
                    each.last_fetched_epoch,
                    each.reported_high_watermark,
                    each.reported_log_start,
                )
            )
        entries[:, : SessionEntry.LAST_READ] = values
        order: Words = np.arange(len(partitions))
        self._lent[session.id] = entries, order
        row = self._row(session)
        row[SessionRow.EPOCH] = session.epoch
        row[SessionRow.USES_IDS] = session.uses_topic_ids
        row[SessionRow.ENTRIES] = entries.ctypes.data
        row[SessionRow.ORDER] = order.ctypes.data
        row[SessionRow.COUNT] = len(partitions)
        row[SessionRow.TOPICS_VERSION] = self._tables.words[Context.TOPICS_VERSION]
        row[SessionRow.USED_NS] = session.last_used_ms * NS_PER_MS
        row[SessionRow.ID] = session.id

    def take_back(self, session: FetchSession) -> None:
        """Copy the changes that the kernel made to a session; the kernel no longer serves it."""
        lent = self._lent.pop(session.id, None)
        if lent is None:
            return
        row = self._row(session)
        session.epoch = int(row[SessionRow.EPOCH])
        session.last_used_ms = self.used_ms(session)
        row[SessionRow.ID] = 0
        entries, order = lent
        partitions = list(session.partitions.items())
        for (_, each), entry in zip(partitions, entries.tolist(), strict=True):
            each.fetch_offset = entry[SessionEntry.OFFSET]
            each.max_bytes = entry[SessionEntry.MAX_BYTES]
            each.leader_epoch = entry[SessionEntry.CURRENT_LEADER_EPOCH]
            each.last_fetched_epoch = entry[SessionEntry.LAST_FETCHED_EPOCH]
            each.reported_high_watermark = entry[SessionEntry.SENT_HIGH_WATERMARK]
            each.reported_log_start = entry[SessionEntry.SENT_LOG_START]
        session.partitions = dict(partitions[at] for at in order.tolist())
