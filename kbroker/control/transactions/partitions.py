"""The partitions of a transaction, sorted by topic."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any, Final

TopicPartition = tuple[str, int]
"""Topic name and partition index."""


class TransactionPartitions(Set[TopicPartition]):
    """A set that does not change. A producer adds partitions one after the other, and each time
    all of them are stored: so they are kept as the record has them.

    by_topic: each topic's indexes in ascending order, without repetitions; no topic without any.
    """

    __slots__ = ("by_topic",)

    def __init__(self, by_topic: Mapping[str, tuple[int, ...]]) -> None:
        self.by_topic: Final = by_topic

    @classmethod
    def of(cls, partitions: Iterable[TopicPartition]) -> "TransactionPartitions":
        """The set of these partitions, in any order."""
        if isinstance(partitions, TransactionPartitions):
            return partitions
        return cls.of_topics((topic, (index,)) for topic, index in partitions)

    @classmethod
    def of_topics(cls, topics: Iterable[tuple[str, Iterable[int]]]) -> "TransactionPartitions":
        """The set of partitions that are given by topic; a topic may come several times."""
        found: dict[str, set[int]] = {}
        for topic, indexes in topics:
            found.setdefault(topic, set()).update(indexes)
        return cls({topic: tuple(sorted(indexes)) for topic, indexes in found.items() if indexes})

    @classmethod
    def _from_iterable(cls, it: Iterable[Any]) -> "TransactionPartitions":  # type: ignore[override]
        """The set that the base class's operations make."""
        return cls.of(it)

    def __contains__(self, partition: Any) -> bool:
        topic, index = partition
        return _holds(self.by_topic.get(topic, ()), index)

    def __iter__(self) -> Iterator[TopicPartition]:
        return ((topic, index) for topic in sorted(self.by_topic) for index in self.by_topic[topic])

    def __len__(self) -> int:
        return sum(map(len, self.by_topic.values()))

    def __bool__(self) -> bool:
        return bool(self.by_topic)

    def __le__(self, other: Set[object]) -> bool:
        if not isinstance(other, TransactionPartitions):
            return super().__le__(other)
        return all(
            _holds_all(other.by_topic.get(topic, ()), indexes) for topic, indexes in self.by_topic.items()
        )

    def joined(self, added: "TransactionPartitions") -> "TransactionPartitions":
        """These and others."""
        by_topic = dict(self.by_topic)
        for topic, indexes in added.by_topic.items():
            own = by_topic.get(topic)
            by_topic[topic] = indexes if own is None else _merged(own, indexes)
        return TransactionPartitions(by_topic)

    def without(self, removed: Iterable[TopicPartition]) -> "TransactionPartitions":
        """These but for others."""
        by_topic = dict(self.by_topic)
        for topic, indexes in TransactionPartitions.of(removed).by_topic.items():
            gone = set(indexes)
            left = tuple(index for index in by_topic.pop(topic, ()) if index not in gone)
            if left:
                by_topic[topic] = left
        return TransactionPartitions(by_topic)


NO_PARTITIONS: Final = TransactionPartitions({})
"""One for all ids without any."""


def _holds(indexes: tuple[int, ...], index: int) -> bool:
    at = bisect_left(indexes, index)
    return at < len(indexes) and indexes[at] == index


def _holds_all(indexes: tuple[int, ...], others: tuple[int, ...]) -> bool:
    if len(others) == 1:
        return _holds(indexes, others[0])
    return indexes == others or set(indexes).issuperset(others)


def _merged(indexes: tuple[int, ...], added: tuple[int, ...]) -> tuple[int, ...]:
    if len(added) > 1:
        return tuple(sorted({*indexes, *added}))
    at = bisect_left(indexes, added[0])
    if indexes[at : at + 1] == added:
        return indexes
    return indexes[:at] + added + indexes[at:]
