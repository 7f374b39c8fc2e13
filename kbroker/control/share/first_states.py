"""First states of shared partitions that are being written, so that none stays behind when its
group is deleted meanwhile. Pure: no I/O, no clock."""

from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import Struct

from kbroker.control.coordinator.machine import Operation, Outcome
from kbroker.control.share.state_shard import ShareKey
from kbroker.protocol.errors import ErrorCode, KafkaError


class Writing(Struct, eq=False):
    """One task that writes first states of a group. key: the state that it writes now, None before
    the first. is_refused: the group is being deleted."""

    group_id: str
    key: ShareKey | None = None
    is_refused: bool = False

    def unless_deleted(self, operation: Operation, now_ms: int) -> Outcome:
        """Decide a write. Raises UNKNOWN_TOPIC_OR_PARTITION if the group is being deleted."""
        if self.is_refused:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return operation(now_ms)


class FirstStates:
    """Runs in: control. Owner: the SharePartitions."""

    def __init__(self) -> None:
        self._writing: set[Writing] = set()

    @contextmanager
    def of(self, group_id: str) -> Iterator[Writing]:
        """A task that writes first states of a group, until it ends."""
        writing = Writing(group_id)
        self._writing.add(writing)
        try:
            yield writing
        finally:
            self._writing.remove(writing)

    def refuse(self, group_id: str) -> list[ShareKey]:
        """Refuse all writes of the running tasks that are not decided yet; the keys whose write may
        be decided and not replayed."""
        found: dict[ShareKey, None] = {}
        for writing in self._writing:
            if writing.group_id == group_id:
                writing.is_refused = True
                if writing.key is not None:
                    found[writing.key] = None
        return list(found)
