"""Members of a KIP-848 consumer group, for tests: what a client remembers and sends."""

from kbroker.control.groups.settings import GroupSettings
from tests.control.groups.coordinator import Coordinator

INTERVAL_MS = 1000
"""consumer.assignment.interval.ms: the target is not computed more often."""


def kafka_with(settings: GroupSettings | None = None, **topics: int) -> Coordinator:
    kafka = Coordinator(settings)
    for name, partitions in (topics or {"t": 6}).items():
        kafka.topics.put(name, partitions)
    return kafka


class Member:
    """A client that does what the protocol asks: it owns what it is given, and gives up what it is
    not."""

    def __init__(
        self, kafka: Coordinator, name: str, topics: list[str] | None = None, **fields: object
    ) -> None:
        self.kafka, self.name, self.fields = kafka, name, fields
        self.epoch = 0
        self.owned: dict[str, list[int]] = {}
        self.beat(topics=["t"] if topics is None and "regex" not in fields else topics)

    def beat(self, **fields: object) -> dict[str, list[int]]:
        first = self.epoch == 0
        given = (self.fields | fields) if first else {"owned": self.owned, **fields}
        if "instance" in self.fields:
            given["instance"] = self.fields["instance"]
        response = self.kafka.beat(self.name, self.epoch, **given)
        self.epoch = response.member_epoch
        self.owned = self.owned if (parts := self.kafka.parts(response)) is None else parts
        return self.owned


def settle(kafka: Coordinator, *members: Member) -> None:
    """Everybody heartbeats until nothing moves."""
    kafka.advance(INTERVAL_MS)
    for _ in range(6):
        for member in members:
            member.beat()
    assert kafka.described().group_state == "Stable"


def owners(*members: Member) -> dict[tuple[str, int], str]:
    """Who owns each partition; fails when two do."""
    found: dict[tuple[str, int], str] = {}
    for member in members:
        for topic, partitions in member.owned.items():
            for partition in partitions:
                assert (topic, partition) not in found
                found[topic, partition] = member.name
    return found
