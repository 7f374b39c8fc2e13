"""Incremental fetch sessions (KIP-227, Kafka's FetchSession): the partitions that a consumer
fetches, so that it need not list them in each request.

Runs in: network. Owner: the process. Only the process that created a session knows it: a client
that reconnects to another process starts a new one (FETCH_SESSION_ID_NOT_FOUND). No clock: times
are passed in.
"""

from collections.abc import Callable, Iterable

from msgspec import Struct

from kbroker.kernels.memory import INT32_MAX
from kbroker.net.rows import FetchVersion
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.fetch import FetchPartition, FetchRequest
from kbroker.protocol.schema import ZERO_UUID

EVICTION_MS = 120_000  # Kafka's MIN_INCREMENTAL_FETCH_SESSION_EVICTION_MS
NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1

Key = tuple[str | bytes, int]  # topic name or id, partition


class FetchedPartition(Struct):
    """One partition of a fetch: what was requested, and what the session's last answer returned."""

    topic: str
    topic_id: bytes
    partition: int
    fetch_offset: int
    max_bytes: int
    leader_epoch: int
    last_fetched_epoch: int
    reported_high_watermark: int = -1
    reported_log_start: int = -1
    refused: bool = False  # the client has no permission to read it
    by_replica: bool = False  # the client presents itself as another broker
    by_id: bool = False  # the request has topic ids, of which the zero id is one

    def update_request_params(self, part: FetchPartition) -> None:
        """Apply the fields of a request."""
        self.fetch_offset = part.fetch_offset
        self.max_bytes = part.partition_max_bytes
        self.leader_epoch = part.current_leader_epoch
        self.last_fetched_epoch = part.last_fetched_epoch

    def maybe_update_response_data(
        self, error: int, high_watermark: int, log_start: int, length: int, diverging: bool
    ) -> bool:
        """Whether an incremental answer must include this partition; remembers the values that it
        reports."""
        news = length > 0 or error != 0 or diverging
        news |= high_watermark != self.reported_high_watermark or log_start != self.reported_log_start
        self.reported_high_watermark = -1 if error else high_watermark
        self.reported_log_start = log_start
        return news


MAX_PARTITIONS = 1 << 16
"""Maximum number of partitions in one session. A session that names more is not created; one that
grows beyond it ends, and its client sends whole requests."""
MAX_ALL_PARTITIONS = 1 << 19
"""Maximum of all sessions of a process: a consumer without a session sends whole requests."""


class FetchSession:
    """Partitions of one session in the order in which they are read; epoch: the next that the
    client must send."""

    __slots__ = ("counted", "created_ms", "epoch", "id", "last_used_ms", "partitions", "uses_topic_ids")

    def __init__(
        self, number: int, partitions: dict[Key, FetchedPartition], uses_topic_ids: bool, now_ms: int
    ) -> None:
        self.id = number
        self.epoch = INITIAL_EPOCH + 1
        self.partitions = partitions
        self.counted = 0
        self.uses_topic_ids = uses_topic_ids
        self.created_ms = self.last_used_ms = now_ms


class FetchSessionCache:
    """The session cache of one process, with room for ``slots`` sessions."""

    def __init__(
        self,
        slots: int,
        new_id: Callable[[], int],
        on_gone: Callable[[int], None],
        used_ms: Callable[["FetchSession"], int],
    ) -> None:
        """new_id(): an id that is not in use. on_gone(id): a session is over. used_ms(session): its
        last use."""
        self._slots = slots
        self._new_id = new_id
        self._on_gone = on_gone
        self._used_ms = used_ms
        self._sessions: dict[int, FetchSession] = {}
        self.partitions = 0
        """Partitions in all sessions (NumIncrementalFetchPartitionsCached)."""
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def close(self, number: int) -> None:
        """Forget a session."""
        if (session := self._sessions.pop(number, None)) is not None:
            self.partitions -= session.counted
            self._on_gone(number)

    def find(self, number: int) -> FetchSession | None:
        """A session by its id."""
        return self._sessions.get(number)

    def create(
        self, partitions: dict[Key, FetchedPartition], uses_topic_ids: bool, now_ms: int
    ) -> FetchSession | None:
        """A session over partitions, None when the cache has no room for it."""
        if len(partitions) > MAX_PARTITIONS:
            return None
        if len(self._sessions) >= self._slots and not self._evict(len(partitions), now_ms):
            return None
        while self.partitions + len(partitions) > MAX_ALL_PARTITIONS:
            if not self._evict_stale(now_ms):
                return None
        number = self._new_id()
        session = self._sessions[number] = FetchSession(number, partitions, uses_topic_ids, now_ms)
        self._count(session)
        return session

    def _count(self, session: FetchSession) -> None:
        """Count the partitions of a session again."""
        if self._sessions.get(session.id) is not session:  # closed meanwhile
            return
        self.partitions += len(session.partitions) - session.counted
        session.counted = len(session.partitions)

    def _evict_stale(self, now_ms: int) -> bool:
        oldest = min(self._sessions.values(), key=self._used_ms, default=None)
        if oldest is None or now_ms - self._used_ms(oldest) <= EVICTION_MS:
            return False
        self.close(oldest.id)
        self.evictions += 1
        return True

    def _evict(self, size: int, now_ms: int) -> bool:
        """Drop the session that was unused for long, else a smaller session that is not new
        (FetchSessionCacheShard.tryEvict)."""
        if self._evict_stale(now_ms):
            return True
        old = (s for s in self._sessions.values() if now_ms - s.created_ms > EVICTION_MS)
        smallest = min(old, key=lambda s: len(s.partitions), default=None)
        if smallest is None or size < len(smallest.partitions):
            return False
        self.close(smallest.id)
        self.evictions += 1
        return True

    def use(self, request: FetchRequest, version: int, now_ms: int) -> "FetchSession | ErrorCode":
        """The session of an incremental request, updated by it; its epoch advances. A session that
        becomes too large ends."""
        session = self._sessions.get(request.session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != request.session_epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.uses_topic_ids != (version >= FetchVersion.TOPIC_IDS):
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        room = min(MAX_PARTITIONS, MAX_ALL_PARTITIONS - self.partitions + session.counted)
        for key, fetched, part in requested_partitions(request, version):
            known = session.partitions.get(key)
            if known is not None:
                known.update_request_params(part)
            elif len(session.partitions) < room:
                session.partitions[key] = fetched
            else:
                self.close(session.id)
                return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        for topic in request.forgotten_topics_data:
            name = topic.topic if topic.topic_id == ZERO_UUID else topic.topic_id
            for partition in topic.partitions:
                session.partitions.pop((name, partition), None)
        if not session.partitions:
            self.close(session.id)
            return session
        self._count(session)
        session.last_used_ms = now_ms
        session.epoch = 1 if session.epoch == INT32_MAX else session.epoch + 1
        return session


def requested_partitions(
    request: FetchRequest, version: int
) -> Iterable[tuple[Key, FetchedPartition, FetchPartition]]:
    """The partitions that a request names, each with its key in a session."""
    by_replica = max(request.replica_id, request.replica_state.replica_id) >= 0
    for topic in request.topics:
        name: str | bytes = topic.topic if topic.topic_id == ZERO_UUID else topic.topic_id
        for part in topic.partitions:
            fetched = FetchedPartition(
                topic.topic,
                topic.topic_id,
                part.partition,
                part.fetch_offset,
                part.partition_max_bytes,
                part.current_leader_epoch,
                part.last_fetched_epoch,
                by_replica=by_replica,
                by_id=version >= FetchVersion.TOPIC_IDS,
            )
            yield (name, part.partition), fetched, part
