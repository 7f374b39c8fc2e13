"""Metrics of dead letters: written letters by group, failed attempts, waiting records."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from kbroker.control.share.dead_offsets import Dead
from kbroker.metrics.slots import Slots, bind
from kbroker.protocol.errors import ErrorCode

UNUSABLE: Final = "unusable_topic"
OTHER: Final = "other"
REASONS: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.KAFKA_STORAGE_ERROR: "storage",
    ErrorCode.REQUEST_TIMED_OUT: "timeout",
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "offline",
    ErrorCode.NOT_ENOUGH_REPLICAS: "replicas",
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: "replicas",
    ErrorCode.RECORD_LIST_TOO_LARGE: "too_large",
    ErrorCode.MESSAGE_TOO_LARGE: "too_large",
}
"""The label of a failure, by its error; every other error is OTHER."""
WAITING: Final = bind("kbroker_dead_letters_waiting")


def count_of(dead: Iterable[Dead]) -> int:
    """The number of records."""
    return sum(each.last - each.first + 1 for each in dead)


class DeadLetterCounts:
    """Runs in: control. Owner: the SharePartitions. metrics: this process's. Letters are counted by
    group and by topic of the original records, since control started.
    """

    def __init__(self, metrics: Slots) -> None:
        self._words = metrics.words
        self._written: dict[str, Counter[str]] = {}
        self._late: dict[int, list[Dead]] = {}
        self._show_waiting()

    def written_of(self, group_id: str) -> Mapping[str, int]:
        """Letters of a group by the topic of their originals."""
        return self._written.get(group_id, {})

    def expect(self, group_id: str, topic: str) -> None:
        """Start the series of a group and topic at 0, because letters may follow."""
        self._written.setdefault(group_id, Counter())[topic] += 0

    def written(self, group_id: str, topic: str, count: int) -> None:
        """Count letters that are in their log."""
        self._written.setdefault(group_id, Counter())[topic] += count

    def failed(self, code: ErrorCode) -> None:
        """An attempt to write letters failed and will be repeated."""
        self._fail(REASONS.get(code, OTHER))

    def refused(self) -> None:
        """The settings allow no letters: records are archived without a letter."""
        self._fail(UNUSABLE)

    def forget_group(self, group_id: str) -> None:
        """The group has been deleted."""
        self._written.pop(group_id, None)

    def wait(self, dead: list[Dead]) -> None:
        """The rest of the list waits for the next attempt."""
        self._late[id(dead)] = dead
        self._show_waiting()

    def end(self, dead: list[Dead]) -> None:
        """Stop showing the list as waiting: it is written, or its records are delivered to the
        group again."""
        self._late.pop(id(dead), None)
        self._show_waiting()

    def _fail(self, reason: str) -> None:
        self._words[bind("kbroker_dead_letter_failures_total", reason=reason)] += 1

    def _show_waiting(self) -> None:
        self._words[WAITING] = sum(count_of(dead) for dead in self._late.values())
