"""The topology of a streams group: its subtopologies with the topics they read, write and keep
state in."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from kbroker.protocol.coordinator_records import streams_group_topology as record
from kbroker.protocol.messages import streams_group_describe as described
from kbroker.protocol.messages import streams_group_heartbeat as heartbeat
from kbroker.protocol.schema import ProtocolError
from kbroker.protocol.slices import in_order, paced


class InternalTopic(Struct, frozen=True):
    """A repartition or changelog topic. partitions and replication_factor 0: not specified."""

    name: str
    partitions: int
    replication_factor: int
    configs: tuple[tuple[str, str], ...]


class Subtopology(Struct, frozen=True):
    """One part of an application that runs as tasks, one a partition."""

    subtopology_id: str
    source_topics: frozenset[str]
    source_regex: frozenset[str]
    changelogs: Mapping[str, InternalTopic]
    repartition_sinks: frozenset[str]
    repartition_sources: Mapping[str, InternalTopic]
    copartitioned: tuple[frozenset[str], ...]

    @property
    def is_stateful(self) -> bool:
        return bool(self.changelogs)

    @property
    def inputs(self) -> frozenset[str]:
        """Topics whose partitions make its tasks."""
        return self.source_topics | self.repartition_sources.keys()


class Topology(Struct, frozen=True):
    """All subtopologies by id, in the order of their ids."""

    epoch: int
    subtopologies: Mapping[str, Subtopology]

    def inputs(self) -> frozenset[str]:
        """Every topic it reads."""
        found: set[str] = set()
        for each in paced(self.subtopologies.values()):
            found |= each.inputs
        return frozenset(found)

    def required_topics(self) -> frozenset[str]:
        """Every topic it reads or keeps state in."""
        found: set[str] = set()
        for each in paced(self.subtopologies.values()):
            found |= each.inputs | each.changelogs.keys()
        return frozenset(found)

    def subtopology_reading(self, topic: str) -> Subtopology | None:
        """The subtopology that has the topic as an input."""
        return next((each for each in self.subtopologies.values() if topic in each.inputs), None)


def from_message(message: heartbeat.Topology) -> Topology:
    """A member's topology. Raises ProtocolError for one that refers to topics it does not have."""
    return _topology(message.epoch, message.subtopologies)


def from_record(value: record.StreamsGroupTopologyValue) -> Topology:
    """The topology of a record. Raises ProtocolError."""
    return _topology(value.epoch, value.subtopologies)


def _topology(epoch: int, parts: Iterable[heartbeat.Subtopology | record.Subtopology]) -> Topology:
    ordered = sorted(parts, key=lambda each: each.subtopology_id)
    return Topology(epoch, {each.subtopology_id: _subtopology(each) for each in paced(ordered)})


def _subtopology(part: heartbeat.Subtopology | record.Subtopology) -> Subtopology:
    groups = []
    repartitions = [each.name for each in part.repartition_source_topics]
    for group in part.copartition_groups:
        names = _chosen(part.source_topics, group.source_topics)
        names |= _chosen(repartitions, group.repartition_source_topics)
        groups.append(frozenset(names))
    return Subtopology(
        part.subtopology_id,
        frozenset(part.source_topics),
        frozenset(part.source_topic_regex),
        _internal(part.state_changelog_topics),
        frozenset(part.repartition_sink_topics),
        _internal(part.repartition_source_topics),
        tuple(sorted(groups, key=sorted)),
    )


def _chosen(names: Sequence[str], indexes: Iterable[int]) -> set[str]:
    """The names at these places. Raises ProtocolError for places that are not there."""
    found = set()
    for index in indexes:
        if not 0 <= index < len(names):
            raise ProtocolError(f"a co-partition group has topic {index} of {len(names)}")
        found.add(names[index])
    return found


def _internal(topics: Iterable[heartbeat.TopicInfo | record.TopicInfo]) -> dict[str, InternalTopic]:
    return {
        topic.name: InternalTopic(
            topic.name,
            topic.partitions,
            topic.replication_factor,
            tuple(sorted((each.key, each.value) for each in topic.topic_configs)),
        )
        for topic in sorted(topics, key=lambda each: each.name)
    }


def to_record(topology: Topology) -> record.StreamsGroupTopologyValue:
    """Co-partition groups are stored as indexes into the lists of the record."""
    return record.StreamsGroupTopologyValue(
        topology.epoch, [_stored(each) for each in paced(topology.subtopologies.values())]
    )


def _stored(part: Subtopology) -> record.Subtopology:
    sources, repartitions = in_order(part.source_topics), in_order(part.repartition_sources)
    source_at = {name: at for at, name in enumerate(paced(sources))}
    repartition_at = {name: at for at, name in enumerate(paced(repartitions))}
    return record.Subtopology(
        part.subtopology_id,
        sources,
        in_order(part.source_regex),
        [_stored_topic(each) for each in paced(part.changelogs.values())],
        in_order(part.repartition_sinks),
        [_stored_topic(part.repartition_sources[name]) for name in paced(repartitions)],
        [
            record.CopartitionGroup(_places(group, source_at), [], _places(group, repartition_at))
            for group in paced(part.copartitioned)
        ],
    )


def _places(group: Iterable[str], places: Mapping[str, int]) -> list[int]:
    return sorted(places[name] for name in group if name in places)


def _stored_topic(topic: InternalTopic) -> record.TopicInfo:
    configs = [record.TopicConfig(key, value) for key, value in topic.configs]
    return record.TopicInfo(topic.name, topic.partitions, topic.replication_factor, configs)


def to_description(topology: Topology, partitions: Mapping[str, int]) -> described.Topology:
    """The topology for StreamsGroupDescribe; partitions: decided partition counts of internal
    topics."""

    def shown(topic: InternalTopic) -> described.TopicInfo:
        configs = [described.KeyValue(key, value) for key, value in topic.configs]
        count = partitions.get(topic.name, topic.partitions)
        return described.TopicInfo(topic.name, count, topic.replication_factor, configs)

    return described.Topology(
        topology.epoch,
        [
            described.Subtopology(
                part.subtopology_id,
                sorted(part.source_topics),
                sorted(part.repartition_sinks),
                [shown(each) for each in part.changelogs.values()],
                [shown(each) for each in part.repartition_sources.values()],
            )
            for part in topology.subtopologies.values()
        ],
    )
