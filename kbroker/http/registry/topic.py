"""The topic `_schemas`: read to its end before each answer, and written to, as a client of the
broker."""

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from http import HTTPStatus

from kbroker.config.acls import WRITE
from kbroker.config.topic import SCHEMAS
from kbroker.http.console.caller import Caller, must_not_wait, no_waits
from kbroker.http.console.log_reader import Scan
from kbroker.http.console.refusal import NotServed, QuotaUsedUp, Refusal, check
from kbroker.http.registry.deadline import WAIT_S, Deadline, held
from kbroker.http.registry.failure import Failure, store_failed, unavailable
from kbroker.http.registry.state import State
from kbroker.http.registry.unread import UnreadRows
from kbroker.ipc.crash_point import crash_point
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kbroker.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponseTopic,
)
from kbroker.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from kbroker.protocol.records import Record, build_batch

log = logging.getLogger(__name__)

COMPACT = [CreatableTopicConfig("cleanup.policy", "compact")]
METADATA_WITH_ID = 12
"""A version of Metadata that has the ids of topics."""
PRODUCE_BY_NAME = 12
"""The last version of Produce that names topics."""
TIMEOUT_MS = 8000
TRIES = 20
PAUSE_S = 0.05
Row = tuple[bytes, bytes | None]
_MOVING = ("NOT_LEADER_OR_FOLLOWER", "LEADER_NOT_AVAILABLE")
"""Errors of a topic that gets another leader."""
_REFUSED = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }
)
"""Errors of a Produce that has appended nothing. Others, such as REQUEST_TIMED_OUT, leave it
open."""


class NotWritten(Failure):
    """The broker has refused records: they are not in the log, and never will be."""


class SchemaTopic:
    """Runs in: http. Owner: the registry. `lock` is held by a change, from its read to the end
    until its write is in the log. Reads need no lock: the broker may let a caller wait for long,
    because of a quota or of wrong guesses at its password, and others do not wait for that.
    unread: under `lock`.

    It has no rights: the broker decides whether the caller may read and write the topic."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.state = State()
        self.unread = UnreadRows()
        self._topic_id: bytes | None = None  # of the topic that was read
        self._node: int | None = None  # that led the topic when it was last read
        self._next = 0
        self._is_read = False
        self._applying = threading.Lock()
        self._first = threading.Lock()

    @contextmanager
    def changing(self, caller: Caller) -> Iterator[State]:
        """Holds `lock` for a change; yields the state. A caller without the rights is refused, and
        one with a quota waits, before. Raises Failure."""
        self.check_rights(caller)
        with self.locked(caller) as state:
            yield state

    @contextmanager
    def locked(self, caller: Caller) -> Iterator[State]:
        """Holds `lock`; yields the state. The throttle times of a caller whose quota is used up are
        waited for before, or by its next request, not with the lock: the state may then lack what
        another registry has written since the lock was waited for. Raises Failure if the lock is
        not free in time."""
        text = "too many changes of schemas at the same time"
        with self._ready(caller):
            self.refresh(caller)
            with held(self.lock, text), no_waits():
                yield self._refreshed_or_known(caller)

    def _refreshed_or_known(self, caller: Caller) -> State:
        """As `refresh`, without the wait; the state that was read before if a quota is used up.
        Raises Failure if another thread has begun to read the topic again since."""
        try:
            return self._refreshed(caller)
        except QuotaUsedUp as refusal:
            with self._applying:
                if self._is_read:
                    return self.state
            raise _failure(refusal) from refusal

    @contextmanager
    def _ready(self, caller: Caller) -> Iterator[None]:
        """The topic exists, and the caller has a connection for its write. Raises Failure."""
        self._ensure_topic(caller)
        with ExitStack() as kept:
            try:
                kept.enter_context(caller.reserved(self._node))
            except Refusal as refusal:
                raise _failure(refusal) from refusal
            yield

    def _ensure_topic(self, caller: Caller) -> None:
        """Creates the topic if it is missing: a used-up quota could prevent that with the lock.
        Raises Failure."""
        if not self._is_read:
            self.refresh(caller)
        if not self._is_read:
            self._create(caller)
            self.refresh(caller)

    def check_rights(self, caller: Caller) -> None:
        """Raises Failure if the broker would refuse the caller's records."""
        try:
            _check_writer(caller)
        except Refusal as refusal:
            if refusal.code == "UNKNOWN_TOPIC_OR_PARTITION":
                self._create(caller, only_check=True)
            elif refusal.code not in _MOVING:
                raise _failure(refusal) from refusal

    def refresh(self, caller: Caller) -> State:
        """Reads the records that were written since. A caller whose quota is used up waits, up to a
        bound. Raises Failure."""
        limit = Deadline(WAIT_S)
        while True:
            try:
                return self._refreshed(caller)
            except QuotaUsedUp as refusal:
                if must_not_wait() or limit.is_over:
                    raise _failure(refusal) from refusal
            time.sleep(PAUSE_S)  # and its next request waits for the quota

    def _refreshed(self, caller: Caller) -> State:
        """As `refresh`, without the wait. Raises Failure, QuotaUsedUp."""
        for _ in range(TRIES):
            before = self.state
            try:
                return self._read(caller)
            except QuotaUsedUp:
                raise
            except Refusal as refusal:
                if refusal.code == "UNKNOWN_TOPIC_OR_PARTITION":
                    return self._forget(before)
                if refusal.code == "OFFSET_OUT_OF_RANGE":
                    self._forget(before)  # the topic was deleted and created again
                elif refusal.code not in _MOVING:
                    raise _failure(refusal) from refusal
                time.sleep(PAUSE_S)
        raise store_failed(f"the topic {SCHEMAS} cannot be read now")

    def _read(self, caller: Caller) -> State:
        node, topic_id = _leader_and_id(caller)
        self._follow(topic_id)
        self._node = node
        # the whole topic is read by one thread at a time, as long as that is not too slow
        is_first = not self._is_read and self._first.acquire(timeout=WAIT_S)
        scan: Scan | None = None
        known: State | None = None
        try:
            while True:
                with self._applying:
                    state, start = self.state, self._next
                if scan is None or state is not known:
                    known, scan = state, Scan(caller, SCHEMAS, 0, node, start, committed=False, keeps=True)
                scan.next_offset = start
                records = scan.records()
                if scan.next_offset == start:
                    self._end_of(state)
                    return state
                self._apply(state, records, scan.next_offset)
        finally:
            if is_first:
                self._first.release()

    def _apply(self, state: State, records: Sequence[Record], next_offset: int) -> None:
        """Apply records that another thread has not applied, unless the topic was replaced."""
        with self._applying:
            if state is not self.state:
                return
            for record in records:
                if record.offset >= self._next:
                    state.apply(record.key, record.value)
            self._next = max(self._next, next_offset)

    def _end_of(self, state: State) -> None:
        """The topic was read to its end once. An empty one, too: its readers need not wait for one
        another."""
        with self._applying:
            self._is_read |= state is self.state

    def _follow(self, topic_id: bytes) -> None:
        """Begin at the start if the topic was deleted and created again since it was read."""
        with self._applying:
            if topic_id != self._topic_id:
                self._topic_id = topic_id
                self._restart()

    def _forget(self, before: State) -> State:
        """The topic that `before` was read from is gone."""
        with self._applying:
            if self.state is before:
                self._restart()
            return self.state

    def _restart(self) -> None:
        """Read from the start; under `_applying`."""
        self._is_read, self._node = False, None
        if self._next:
            self.state, self._next = State(), 0

    def write(self, caller: Caller, rows: Sequence[Row]) -> State:
        """Appends records and applies them. Raises NotWritten; after any other Failure they may
        still be in the log, and the next read finds them."""
        now_ms = time.time_ns() // 1_000_000
        batch = build_batch([(key, value, (), now_ms) for key, value in rows])
        request = ProduceRequest(
            None, -1, TIMEOUT_MS, [TopicProduceData(SCHEMAS, partition_data=[PartitionProduceData(0, batch)])]
        )
        with self.lock:
            with self._applying:
                before = self.state, self._next
            offset = self._append(caller, request)
            crash_point("registry: written, not answered")
            return self._written(rows, offset, before) or self.refresh(caller)

    def _written(self, rows: Sequence[Row], offset: int, before: tuple[State, int]) -> State | None:
        """The state with the records that were written at an offset; None if others, which have to
        be read first, were written before them. before: the state and its end before the write,
        since when another thread may have read the records."""
        with self._applying:
            state, start = before
            if self.state is state and start <= offset <= self._next - len(rows):
                return state
            if offset != self._next:
                return None
            for key, value in rows:
                self.state.apply(key, value)
            self._next += len(rows)
            return self.state

    def _append(self, caller: Caller, request: ProduceRequest) -> int:
        """The offset of the first record. Raises NotWritten if no attempt can have appended the
        records, else Failure."""
        may_be_written, node = False, self._node
        try:
            for _ in range(TRIES):
                found = _produced(caller, request, node)
                code, node = found.error_code, None
                if code == 0:
                    return found.base_offset
                if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    self._create(caller)
                else:
                    may_be_written |= code not in _REFUSED
                    if code != ErrorCode.NOT_LEADER_OR_FOLLOWER:
                        raise _error(ErrorCode(code), found.error_message)
                time.sleep(PAUSE_S)
            raise store_failed(f"the topic {SCHEMAS} cannot be written now")
        except Refusal as refusal:
            may_be_written |= not isinstance(refusal, NotServed)
            failure = _failure(refusal)
        except Failure as raised:
            failure = raised
        raise failure if may_be_written else NotWritten(failure.status, failure.code, failure.text)

    def _create(self, caller: Caller, only_check: bool = False) -> None:
        request = CreateTopicsRequest([CreatableTopic(SCHEMAS, 1, -1, [], COMPACT)], TIMEOUT_MS, only_check)
        try:
            (found,) = caller.ask(ApiKey.CREATE_TOPICS, request).topics
        except Refusal as refusal:
            raise _failure(refusal) from refusal
        if found.error_code not in (0, ErrorCode.TOPIC_ALREADY_EXISTS):
            raise _error(ErrorCode(found.error_code), found.error_message)
        if not only_check:
            log.info("created the topic %s for schemas", SCHEMAS)


def _leader_and_id(caller: Caller) -> tuple[int, bytes]:
    """The node that leads the topic, and the topic's id. Raises Refusal."""
    found = _described(caller)
    return int(found.partitions[0].leader_id), bytes(found.topic_id)


def _produced(caller: Caller, request: ProduceRequest, node: int | None) -> PartitionProduceResponse:
    """The broker's answer. node: None to ask for the leader first. Raises Refusal: NotServed if
    nothing was sent."""
    if node is None:
        try:
            node, _ = _leader_and_id(caller)
        except Refusal as refusal:
            if refusal.code == "UNKNOWN_TOPIC_OR_PARTITION":
                return PartitionProduceResponse(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            raise NotServed(refusal.status, refusal.code, refusal.text) from refusal
    answer = caller.ask(ApiKey.PRODUCE, request, version=PRODUCE_BY_NAME, node=node)
    found: PartitionProduceResponse = answer.responses[0].partition_responses[0]
    return found


def _check_writer(caller: Caller) -> None:
    """Raises Refusal if the caller may not write to the topic."""
    if not _described(caller, operations=True).topic_authorized_operations >> WRITE & 1:
        check(ErrorCode.TOPIC_AUTHORIZATION_FAILED, SCHEMAS)


def _described(caller: Caller, operations: bool = False) -> MetadataResponseTopic:
    """The topic. operations: also those that the caller may use. Raises Refusal."""
    request = MetadataRequest([MetadataRequestTopic(name=SCHEMAS)], False, False, operations)
    topic: MetadataResponseTopic
    (topic,) = caller.ask(ApiKey.METADATA, request, version=METADATA_WITH_ID).topics
    code = topic.error_code or (topic.partitions[0].error_code if topic.partitions else 0)
    check(code, SCHEMAS)
    return topic


def _error(error: ErrorCode, text: str | None) -> Failure:
    if error is ErrorCode.TOPIC_AUTHORIZATION_FAILED or error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        return Failure(
            HTTPStatus.FORBIDDEN, 40301, f"Not allowed by the ACLs of topic {SCHEMAS}: {error.name}"
        )
    return store_failed(f"{error.name}: {text or error.message}")


def _failure(refusal: Refusal) -> Failure:
    if refusal.status is HTTPStatus.UNAUTHORIZED:
        return Failure(refusal.status, 401, refusal.text)
    if refusal.status is HTTPStatus.FORBIDDEN:
        return Failure(
            HTTPStatus.FORBIDDEN, 40301, f"Not allowed by the ACLs of topic {SCHEMAS}: {refusal.code}"
        )
    if refusal.status is HTTPStatus.SERVICE_UNAVAILABLE:
        return unavailable(refusal.text)
    return store_failed(refusal.text)
