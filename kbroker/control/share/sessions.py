"""Share sessions: the partitions that a member fetches, and the order of its requests (KIP-932,
Kafka's ShareSessionCache)."""

from collections.abc import Callable, Collection, Iterable, Iterator

from msgspec import Struct, field

from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.slices import paced

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
_LAST_EPOCH = 2**31 - 1
LONG = 1024
"""Partitions of a session; requests of a longer session are long work, even if they are short."""
MAX_PARTITIONS = 250_000
"""Maximum of all sessions together. Tables of a million take tens of milliseconds to grow."""

TopicPartition = tuple[bytes, int]


class ShareSession(Struct):
    """One member's session. partitions: in the order in which they were added. epoch: the next
    request's.

    unanswered: partitions to include in the next answer even if they have no records for the
    member.
    """

    group_id: str
    member_id: str
    connection_id: int = 0
    epoch: int = 1
    partitions: dict[TopicPartition, None] = field(default_factory=dict)
    unanswered: set[TopicPartition] = field(default_factory=set)

    def change(self, added: Iterable[TopicPartition], forgotten: Iterable[TopicPartition]) -> None:
        for each in paced(added):
            if each not in self.partitions:
                self.partitions[each] = None
                self.unanswered.add(each)
        for each in paced(forgotten):
            self.partitions.pop(each, None)
            self.unanswered.discard(each)

    def taken(self) -> Iterator[TopicPartition]:
        """Remove all partitions, one by one."""
        while self.partitions:
            taken, _ = self.partitions.popitem()
            self.unanswered.discard(taken)
            yield taken

    def turn(self) -> None:
        """Start with the next partition in the next request, so that none starves."""
        if self.partitions:
            first = next(iter(self.partitions))
            del self.partitions[first]
            self.partitions[first] = None


class ShareSessions:
    """Runs in: control. Owner: the ShareService. on_long: called with True when there is a long
    session, with False when there is none."""

    def __init__(self, limit: int, on_long: Callable[[bool], None] = lambda _: None) -> None:
        self._limit = limit
        self._on_long = on_long
        self._sessions: dict[tuple[str, str], ShareSession] = {}
        self._partitions: dict[tuple[str, str], int] = {}
        self._total = 0
        self._long: set[tuple[str, str]] = set()

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, group_id: str, member_id: str, connection_id: int = 0) -> ShareSession:
        """A new session in the place of the member's old one. Raises
        SHARE_SESSION_LIMIT_REACHED."""
        self.close(group_id, member_id)
        if len(self._sessions) >= self._limit:
            raise KafkaError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        session = self._sessions[group_id, member_id] = ShareSession(group_id, member_id, connection_id)
        return session

    def next(self, group_id: str, member_id: str, epoch: int) -> ShareSession:
        """The session that a request belongs to. Raises SHARE_SESSION_NOT_FOUND,
        INVALID_SHARE_SESSION_EPOCH."""
        session = self._sessions.get((group_id, member_id))
        if session is None:
            raise KafkaError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        if epoch == FINAL_EPOCH:
            return session
        if epoch != session.epoch:
            raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        session.epoch = 1 if epoch == _LAST_EPOCH else epoch + 1
        return session

    def change(
        self,
        session: ShareSession,
        added: Collection[TopicPartition],
        forgotten: Iterable[TopicPartition],
    ) -> None:
        """Add and remove partitions of the session. Raises SHARE_SESSION_LIMIT_REACHED."""
        new = sum(each not in session.partitions for each in paced(added))
        if self._total + new > MAX_PARTITIONS:
            raise KafkaError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        session.change(added, forgotten)
        if self.is_open(session):
            self._count((session.group_id, session.member_id), len(session.partitions))

    def _count(self, key: tuple[str, str], partitions: int) -> None:
        self._total += partitions - self._partitions.pop(key, 0)
        if partitions:
            self._partitions[key] = partitions
        before = bool(self._long)
        if partitions > LONG:
            self._long.add(key)
        else:
            self._long.discard(key)
        if bool(self._long) != before:
            self._on_long(not before)

    def is_open(self, session: ShareSession) -> bool:
        """Whether it has neither ended nor been replaced."""
        return self._sessions.get((session.group_id, session.member_id)) is session

    def on_connection(self, connection_id: int) -> list[ShareSession]:
        """The sessions that began on a connection."""
        return [each for each in self._sessions.values() if each.connection_id == connection_id]

    def end(self, session: ShareSession) -> bool:
        """Close a session; False if it has ended, or was replaced."""
        return self.is_open(session) and self.close(session.group_id, session.member_id) is session

    def close(self, group_id: str, member_id: str) -> ShareSession | None:
        self._count((group_id, member_id), 0)
        return self._sessions.pop((group_id, member_id), None)
