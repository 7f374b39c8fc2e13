"""Produce requests that need Python: batches whose records must be checked, and entries for a
full ring.

Runs in: network; long batches in threads. Owner: the process. While a batch is checked, its
connection accepts no further request, so that a later batch of the same producer cannot overtake
it.
"""

import logging
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial

import numpy as np

from kbroker.ipc.layout import Slot
from kbroker.net.network_tables import CHUNK_BYTES, NetworkTables, Words
from kbroker.net.produce.admit_kernel import push_checked
from kbroker.net.produce.check_kernel import (
    CHECK_LATER,
    LONG_BYTES,
    NEEDS_PYTHON,
    REFUSED,
    UNKNOWN_TOPIC,
    late_check_result,
)
from kbroker.net.produce.long_checks import LongCheck, LongChecks
from kbroker.net.produce.queue_kernel import settle_refused
from kbroker.net.produce.record_checks import Rules, ValidationResult, check
from kbroker.net.produce.record_walk import TooLong
from kbroker.net.produce.refusals import Refusals
from kbroker.net.produce.registered_schemas import Registered, RegisteredSchemas, Unreadable
from kbroker.net.produce.schema_checks import SchemaDemand
from kbroker.net.pump_kernel import wake_workers
from kbroker.net.rows import Event, EventKind, Request, Result
from kbroker.net.rows.chunk_kernel import reserve_bytes
from kbroker.net.topics import Topics
from kbroker.protocol import batch_layout as rb
from kbroker.protocol.errors import ErrorCode

CHECKED = 0  # Event.B of a batch that only found no room in its ring
AT_ONCE_BYTES = 8 << 10
"""Larger batches are checked in threads; one of this size takes a fifth of a millisecond."""
TAKEN_AT_ONCE = 256
"""Batches that are taken at a time, in a fifth of a millisecond."""
SLICE_NS = 1_000_000
"""Time in a turn for batches of one request with thousands of them."""

log = logging.getLogger(__name__)


class ProduceChecks:
    """on_settled(row): every batch of the connection's request has been decided; it may resume.
    request_turn(): requests a call of `process`. consent(result, then): then(code, text) is called
    once control has decided about a transactional batch. may_write(row, topic): whether a
    connection's client may write to a topic, which need not exist."""

    consent: Callable[[int, Callable[[int, str | None], None]], None]
    may_write: Callable[[int, bytes], bool]

    def __init__(
        self,
        tables: NetworkTables,
        topics: Topics,
        on_settled: Callable[[int], None],
        request_turn: Callable[[], None],
    ) -> None:
        self._tables = tables
        self._topics = topics
        self._on_settled = on_settled
        self._request_turn = request_turn
        self._long = LongChecks()
        self._unsorted: deque[Words] = deque()  # results and reasons
        self._unchecked: OrderedDict[int, deque[tuple[int, int]]] = OrderedDict()
        """Request -> (result, reason) of batches that are not checked yet. Requests take turns."""
        self._waiting: deque[int] = deque()  # results without room in ring or arena
        self._rewritten: dict[int, bytes] = {}  # result -> batch that has no place in the arena yet
        self.undecided: dict[int, int] = {}
        """Results that are not decided, by request."""
        self.refusals = Refusals(tables)
        self._schemas = RegisteredSchemas(tables.shared.slots, topics, time.monotonic)

    @property
    def waiting(self) -> bool:
        """Whether a batch waits for its check, or for room."""
        return bool(self._unsorted or self._unchecked or self._waiting)

    def take(self, result: int, reason: int) -> None:
        """Take a batch that the kernel left to Python; `process` checks it."""
        request = self._request(result)
        self.undecided[request] = self.undecided.get(request, 0) + 1
        self._unchecked.setdefault(request, deque()).append((result, reason))

    def take_many(self, events: Words) -> Words:
        """Take the batches of a turn with many events; returns the other events. One request may
        have thousands of batches, so `process` handles them in parts."""
        is_batch = events[:, Event.KIND] == EventKind.CHECK_BATCH
        batches = events[is_batch][:, (Event.A, Event.B)]
        if not len(batches):
            return events
        found = np.unique(self._tables.results[batches[:, 0], Result.REQUEST], return_counts=True)
        for request, count in zip(*(words.tolist() for words in found), strict=True):
            self.undecided[request] = self.undecided.get(request, 0) + count
        self._unsorted.append(batches)
        return events[~is_batch]

    def _take_some(self) -> None:
        batches = self._unsorted.popleft()
        for result, reason in batches[:TAKEN_AT_ONCE].tolist():
            self._unchecked.setdefault(self._request(result), deque()).append((result, reason))
        if len(batches) > TAKEN_AT_ONCE:
            self._unsorted.appendleft(batches[TAKEN_AT_ONCE:])

    def process(self, now_ms: int) -> bool:
        """Check the taken batches and push those for which there is room, each for a part of a
        turn; returns whether work is left."""
        late = self._process(now_ms, time.monotonic_ns() + SLICE_NS)
        return self._push_waiting(time.monotonic_ns() + SLICE_NS) or late

    def _process(self, now_ms: int, ends_ns: int) -> bool:
        while self._unsorted or self._unchecked:
            if time.monotonic_ns() > ends_ns:
                return True
            if self._unsorted:
                self._take_some()
                continue
            request, batches = next(iter(self._unchecked.items()))
            result, reason = batches.popleft()
            if batches:
                self._unchecked.move_to_end(request)
            else:
                del self._unchecked[request]
            try:
                self._check_batch(result, reason, now_ms)
            except Exception:
                log.exception("a batch could not be checked")
                self._refuse(result, ValidationResult(ErrorCode.UNKNOWN_SERVER_ERROR))
        return False

    def _check_batch(self, result: int, reason: int, now_ms: int) -> None:
        request = self._request(result)
        words = self._tables.results[result]
        if reason == CHECK_LATER:
            reason = late_check_result(self._tables.address, result)
        if reason == CHECKED:
            self._waiting.append(result)
            return
        if reason == UNKNOWN_TOPIC:
            start, end = int(words[Result.ADDRESS]), int(words[Result.ADDRESS] + words[Result.LENGTH])
            row = int(self._tables.requests[request, Request.CONNECTION])
            allowed = self.may_write(row, bytes(self._tables.arena_bytes[start:end]))
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if allowed else ErrorCode.TOPIC_AUTHORIZATION_FAILED
            self._settle(result, code, -1)
            return
        if reason == REFUSED:
            self._checked(result, ValidationResult(ErrorCode(int(words[Result.ERROR]))))
            return
        if reason != NEEDS_PYTHON:
            self._settle(result, reason, int(words[Result.LOG_START]))
            return
        address, length, slot = (int(words[i]) for i in (Result.ADDRESS, Result.LENGTH, Result.SLOT))
        data: bytes | memoryview = self._tables.arena_bytes[address : address + length]
        if length <= LONG_BYTES:  # a longer one stays where it is: its request holds the place
            data = bytes(data)
        known = self._topics.by_slot.get(slot)
        name = f"{known[0].name}-{known[1].index}" if known else "?"
        rules = Rules.of_slot(name, self._tables.shared.slots[slot].tolist())
        topic = known[0].name if known else ""
        registered = self._schemas.at_once() if rules.schemas is not None else None
        if length <= AT_ONCE_BYTES and (rules.schemas is None or registered is not None):
            try:
                demand = _demand(topic, rules, registered)
                self._checked(result, check(data, rules, now_ms, at_once=True, demand=demand))
                return
            except TooLong:
                pass
        run = partial(self._check_long, data, rules, now_ms, topic)
        self._long.begin(request, LongCheck(run, partial(self._check_ended, result)))

    def _check_long(
        self, data: bytes | memoryview, rules: Rules, now_ms: int, topic: str, max_bytes: int
    ) -> ValidationResult:
        """Runs in: a thread."""
        try:
            registered = self._schemas.read() if rules.schemas is not None else None
        except Unreadable as error:
            log.warning("schemas of topic %s cannot be looked up: %s", topic, error)
            return ValidationResult(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
        demand = _demand(topic, rules, registered)
        return check(data, rules, now_ms, demand=demand, max_bytes=max_bytes)

    def _check_ended(self, result: int, checking: "Future[ValidationResult]") -> None:
        """A thread has checked a batch."""
        if (error := checking.exception()) is not None:
            log.error("a batch could not be checked", exc_info=error)
        self._checked(
            result, ValidationResult(ErrorCode.UNKNOWN_SERVER_ERROR) if error else checking.result()
        )
        self._request_turn()

    def _checked(self, result: int, validation: ValidationResult) -> None:
        if validation.error:
            if self._is_in_transaction(
                result
            ):  # as Kafka, which checks records once their partition has joined
                self.consent(result, partial(self._on_consent, result, validation))
            else:
                self._refuse(result, validation)
            return
        if validation.data is not None:
            self._rewritten[result] = validation.data
        self._waiting.append(result)

    def _is_in_transaction(self, result: int) -> bool:
        start, arena = int(self._tables.results[result, Result.ADDRESS]), self._tables.arena_bytes
        without_id = arena[start + rb.PRODUCER_ID] & 0x80
        return bool(arena[start + rb.ATTRIBUTES + 1] & rb.ATTRIBUTE_TRANSACTIONAL and not without_id)

    def _on_consent(self, result: int, validation: ValidationResult, code: int, text: str | None) -> None:
        if not code:
            self._refuse(result, validation)
            return
        request = self._request(result)
        self.refuse_unverified(result, code, text)
        self._decided(request)

    def _push_waiting(self, ends_ns: int) -> bool:
        """Push the batches that have room now; returns whether the time was too short for all of
        them."""
        late, kept = False, []
        while self._waiting:
            if late := time.monotonic_ns() > ends_ns:
                break
            result = self._waiting.popleft()
            request = self._request(result)
            if not self._placed(result) or not push_checked(self._tables.address, result):
                kept.append(result)
            else:
                self._decided(request)
        self._waiting.extendleft(reversed(kept))
        wake_workers(self._tables.address)
        return late

    def close(self) -> None:
        """The process ends: drop the batches that are being checked."""
        self._long.close()

    def _request(self, result: int) -> int:
        return int(self._tables.results[result, Result.REQUEST])

    def _placed(self, result: int) -> bool:
        """Whether the batch is in the arena, where the IO worker reads it."""
        data = self._rewritten.get(result)
        if data is None:
            return True
        offset = reserve_bytes(self._tables.address, len(data))
        if offset < 0:
            return False
        self._tables.arena_bytes[offset : offset + len(data)] = data
        words = self._tables.results[result]
        words[Result.ADDRESS] = offset
        words[Result.LENGTH] = len(data)
        words[Result.CHUNK] = offset // CHUNK_BYTES
        del self._rewritten[result]
        return True

    def _refuse(self, result: int, validation: ValidationResult) -> None:
        if validation.message is not None:
            self.refusals.add(result, validation)
        slot = int(self._tables.results[result, Result.SLOT])
        known = validation.error not in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.CORRUPT_MESSAGE)
        log_start = int(self._tables.shared.slots[slot, Slot.LOG_START]) if known else -1
        self._settle(result, int(validation.error), log_start)

    def _settle(self, result: int, code: int, log_start: int) -> None:
        """The batch is refused, and decided."""
        request = self._request(result)
        settle_refused(self._tables.address, result, code, log_start)
        self._decided(request)

    def refuse_unverified(self, result: int, code: int, text: str | None) -> None:
        """Refuse a batch: control does not let it begin a transaction."""
        if text is not None:
            self.refusals.add(result, ValidationResult(ErrorCode(code), text))
        settle_refused(self._tables.address, result, code, -1)

    def _decided(self, request: int) -> None:
        self.undecided[request] -= 1
        if not self.undecided[request]:
            del self.undecided[request]
            row = int(self._tables.requests[request, Request.CONNECTION])
            if row >= 0:  # else the connection is closed, and its row may belong to another one
                self._on_settled(row)


def _demand(topic: str, rules: Rules, registered: Registered | None) -> SchemaDemand | None:
    if rules.schemas is None or registered is None:
        return None
    return SchemaDemand(topic, rules.schemas, registered)
