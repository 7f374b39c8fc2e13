"""Share sessions: what a member fetches, and that its requests come in order (KIP-932, Kafka's
ShareSessionCache)."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from kbroker.protocol.errors import ErrorCode, KafkaError

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
_LAST_EPOCH = 2**31 - 1

TopicPartition = tuple[bytes, int]


@dataclass(slots=True)
class ShareSession:
    """One member's session. partitions: in the order in which they were added. epoch: the next
    request's.

    unanswered: partitions of which the member is to hear even when they have no records for it.
    """

    group_id: str
    member_id: str
    connection_id: int = 0
    epoch: int = 1
    partitions: dict[TopicPartition, None] = field(default_factory=dict)
    unanswered: set[TopicPartition] = field(default_factory=set)

    def change(self, added: Iterable[TopicPartition], forgotten: Iterable[TopicPartition]) -> None:
        for each in added:
            if each not in self.partitions:
                self.partitions[each] = None
                self.unanswered.add(each)
        for each in forgotten:
            self.partitions.pop(each, None)
            self.unanswered.discard(each)

    def turn(self) -> None:
        """Begin with another partition next time, so that none starves."""
        if self.partitions:
            first = next(iter(self.partitions))
            del self.partitions[first]
            self.partitions[first] = None


class ShareSessions:
    """Runs in: control. Owner: the ShareService."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._sessions: dict[tuple[str, str], ShareSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, group_id: str, member_id: str, connection_id: int = 0) -> ShareSession:
        """A new session in the place of the member's old one. Raises
        SHARE_SESSION_LIMIT_REACHED."""
        self._sessions.pop((group_id, member_id), None)
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

    def is_open(self, session: ShareSession) -> bool:
        """Whether it has neither ended nor been replaced."""
        return self._sessions.get((session.group_id, session.member_id)) is session

    def on_connection(self, connection_id: int) -> list[ShareSession]:
        """The sessions that began on a connection."""
        return [each for each in self._sessions.values() if each.connection_id == connection_id]

    def close(self, group_id: str, member_id: str) -> ShareSession | None:
        return self._sessions.pop((group_id, member_id), None)
