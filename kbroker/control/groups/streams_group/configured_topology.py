"""A topology configured for the existing topics: its number of tasks, and the missing internal
topics.

Kafka's InternalTopicManager with RepartitionTopics, CopartitionedTopicsEnforcer and
ChangelogTopics.
"""

from collections.abc import Collection, Mapping
from enum import IntEnum

from msgspec import Struct, field

from kbroker.control.groups.streams_group.topology import InternalTopic, Subtopology, Topology
from kbroker.control.groups.topic_view import TopicView
from kbroker.protocol.bounds import cut_string
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.slices import paced

SHOWN_TOPICS = 3


class Status(IntEnum):
    """Status codes of a heartbeat's answer (KIP-1071)."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


class Misconfigured(Exception):
    """The topics do not fit the topology."""

    def __init__(self, status: Status, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = cut_string(detail)


class ConfiguredTopology(Struct, frozen=True):
    """tasks: number of tasks by subtopology id; empty unless source topics are there and fit.

    partitions: of every internal topic. missing: internal topics to be created, with these counts.
    """

    topology: Topology
    metadata_hash: int
    tasks: Mapping[str, int] = field(default_factory=dict)
    partitions: Mapping[str, int] = field(default_factory=dict)
    missing: tuple[InternalTopic, ...] = ()
    problem: tuple[Status, str] | None = None

    @property
    def is_ready(self) -> bool:
        return self.problem is None


def configure(topology: Topology, metadata_hash: int, view: TopicView) -> ConfiguredTopology:
    """Raises STREAMS_INVALID_TOPOLOGY for a topology that can never run, UNKNOWN_SERVER_ERROR (as
    Kafka) for one with a subtopology that reads nothing."""
    try:
        _check_sources(topology, view)
        counts = _partition_counts(topology, view)
        missing = _missing(topology, counts, view)
    except Misconfigured as error:
        return ConfiguredTopology(topology, metadata_hash, problem=(error.status, error.detail))
    if not all(part.inputs for part in topology.subtopologies.values()):
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "Subtopology does not contain any source topics")
    tasks = {
        key: max(_count(topic, counts, view) for topic in paced(part.inputs))
        for key, part in paced(topology.subtopologies.items())
    }
    problem = None
    if missing:
        names = summary([topic.name for topic in missing])
        problem = (Status.MISSING_INTERNAL_TOPICS, cut_string(f"Internal topics are missing: {names}"))
    return ConfiguredTopology(topology, metadata_hash, tasks, counts, tuple(missing), problem)


def summary(names: Collection[str]) -> str:
    """A few names, and how many more there are."""
    ordered = sorted(names)
    shown = ", ".join(ordered[:SHOWN_TOPICS])
    more = len(ordered) - SHOWN_TOPICS
    return f"{shown} and {more} additional topics" if more > 0 else shown


def _check_sources(topology: Topology, view: TopicView) -> None:
    sources = {topic for part in topology.subtopologies.values() for topic in paced(part.source_topics)}
    missing = [topic for topic in paced(sources) if view.partition_count(topic) is None]
    if missing:
        text = f"Source topics {summary(missing)} are missing."
        raise Misconfigured(Status.MISSING_SOURCE_TOPICS, text)


def _partition_counts(topology: Topology, view: TopicView) -> dict[str, int]:
    """Partitions of every internal topic: the specified number, else that of its writers and of the
    topics that are read together with it."""
    counts = _repartition_counts(topology, view)
    fixed = {
        topic.name
        for part in topology.subtopologies.values()
        for topic in paced(part.repartition_sources.values())
        if topic.partitions
    }
    flexible = counts.keys() - fixed
    for part in topology.subtopologies.values():
        for group in paced(part.copartitioned):
            _make_equal(group, fixed, flexible, counts, view)
    for part in paced(topology.subtopologies.values()):
        widest = max((_count(topic, counts, view) for topic in paced(part.inputs)), default=0)
        for name in paced(part.changelogs):
            if name not in part.source_topics:
                counts[name] = widest
    return counts


def _count(topic: str, counts: Mapping[str, int], view: TopicView) -> int:
    return counts[topic] if topic in counts else view.partition_count(topic) or 0


def _repartition_counts(topology: Topology, view: TopicView) -> dict[str, int]:
    """Partitions of the repartition topics: the specified number, else the largest number of
    partitions of an input of its writers, some of which are repartition topics, too."""
    parts = topology.subtopologies.values()
    sources = {topic.name: topic for part in parts for topic in part.repartition_sources.values()}
    counts = {name: topic.partitions for name, topic in sources.items() if topic.partitions}
    writers, readers = _writers_and_readers(parts, sources)
    if any(not writers[name] for name in sources if name not in counts):
        raise _not_computed(", because a repartition source topic is never used as a sink topic.")
    widths: dict[str, int] = {}  # of the inputs whose partitions are known, by subtopology
    for part in paced(parts):
        known = (
            counts.get(each, 0) if each in sources else view.partition_count(each) for each in part.inputs
        )
        widths[part.subtopology_id] = max((count or 0 for count in known), default=0)
    wider = list(parts)
    while len(counts) < len(sources):
        found = {
            name: max(widths[writer.subtopology_id] for writer in writers[name])
            for part in paced(wider)
            if widths[part.subtopology_id]
            for name in part.repartition_sinks & sources.keys()
            if name not in counts
        }
        if not found:
            raise _not_computed(". There may be loops in the topology that cannot be resolved.")
        counts.update(found)
        wider = [part for name in paced(found) for part in readers[name]]
        for name, count in paced(found.items()):
            for part in readers[name]:
                widths[part.subtopology_id] = max(widths[part.subtopology_id], count)
    return counts


def _writers_and_readers(
    parts: Collection[Subtopology], sources: Mapping[str, InternalTopic]
) -> tuple[dict[str, list[Subtopology]], dict[str, list[Subtopology]]]:
    """The subtopologies that write to, and that read from, each repartition topic."""
    writers: dict[str, list[Subtopology]] = {name: [] for name in sources}
    readers: dict[str, list[Subtopology]] = {name: [] for name in sources}
    for part in paced(parts):
        for name in paced(part.repartition_sinks & sources.keys()):
            writers[name].append(part)
        for name in paced(part.repartition_sources):
            readers[name].append(part)
    return writers, readers


def _not_computed(why: str) -> KafkaError:
    text = f"Failed to compute number of partitions for all repartition topics{why}"
    return KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, text)


def _make_equal(
    group: Collection[str],
    fixed: Collection[str],
    flexible: Collection[str],
    counts: dict[str, int],
    view: TopicView,
) -> None:
    """Check that topics that are read together have the same number of partitions; repartition
    topics without a specified number get it."""
    external = {
        topic: _count(topic, counts, view) for topic in group if topic not in fixed and topic not in flexible
    }
    following = [topic for topic in group if topic in flexible]
    given = {topic: counts[topic] for topic in group if topic in fixed}
    if external:
        if len(set(external.values())) > 1:
            raise _unequal(external)
        target = next(iter(external.values()))
        for topic, count in given.items():
            if count != target:
                text = (
                    f"Number of partitions [{count}] of repartition topic [{topic}] doesn't match number of "
                    f"partitions [{target}] of the source topic."
                )
                raise Misconfigured(Status.INCORRECTLY_PARTITIONED_TOPICS, text)
    elif given and not following:
        if len(set(given.values())) > 1:
            raise _unequal(given)
        return
    else:
        target = max([*given.values(), *(counts[topic] for topic in following)], default=0)
        for topic, count in given.items():
            if count != target:
                raise _unequal({topic: count, **dict.fromkeys(following, target)})
    for topic in following:
        counts[topic] = target


def _unequal(topics: Mapping[str, int]) -> Misconfigured:
    names = ", ".join(sorted(topics))
    text = f"Following topics do not have the same number of partitions: [{names}]"
    return Misconfigured(Status.INCORRECTLY_PARTITIONED_TOPICS, text)


def _missing(topology: Topology, counts: Mapping[str, int], view: TopicView) -> list[InternalTopic]:
    """Internal topics that do not exist. Raises Misconfigured when one exists with another number
    of partitions."""
    missing = []
    for part in topology.subtopologies.values():
        for topic in paced((*part.repartition_sources.values(), *part.changelogs.values())):
            if topic.name not in counts:
                continue  # a source topic that is its own changelog
            exists = view.partition_count(topic.name)
            if exists is None:
                spec = InternalTopic(topic.name, counts[topic.name], topic.replication_factor, topic.configs)
                missing.append(spec)
            elif exists != counts[topic.name]:
                text = (
                    f"Existing topic {topic.name} has different number of partitions: "
                    f"expected {counts[topic.name]}, found {exists}"
                )
                raise Misconfigured(Status.INCORRECTLY_PARTITIONED_TOPICS, text)
    return sorted(missing, key=lambda each: each.name)
