"""A KIP-848 group: clients join, leave, time out and return, topics grow, the coordinator restarts.

In every history, no partition has two owners, and a restart restores exactly the state before it.
When nothing changes any more, the group becomes stable, and every subscribed partition has an
owner.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from tests.control.groups.consumer_members import INTERVAL_MS, kafka_with

NAMES = ("a", "b", "c", "d")
TOPICS = ("t", "u")
QUIET_ROUNDS = 60
GONE = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)


class Client:
    """A client's view. It revokes partitions at once when they leave its assignment, and reports
    that in its next heartbeat."""

    def __init__(self, name: str, topics: list[str]) -> None:
        self.name = name
        self.topics = topics
        self.epoch = 0
        self.owned: dict[str, list[int]] = {}


class ConsumerGroupModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.kafka = kafka_with(t=4, u=2)
        self.clients: dict[str, Client] = {}

    # --- what clients do

    def beat(self, client: Client) -> None:
        first = client.epoch == 0
        try:
            response = self.kafka.beat(
                client.name, client.epoch, topics=client.topics if first else None, owned=client.owned
            )
        except KafkaError as error:
            self.fenced(client, error)
            return
        self.heard(client, response)

    def fenced(self, client: Client, error: KafkaError) -> None:
        if error.code not in GONE:
            raise error
        client.epoch, client.owned = 0, {}

    def heard(self, client: Client, response: ConsumerGroupHeartbeatResponse) -> None:
        assert response.member_epoch >= client.epoch
        client.epoch = response.member_epoch
        if (parts := self.kafka.parts(response)) is not None:
            client.owned = parts

    @rule(name=st.sampled_from(NAMES), topics=st.sets(st.sampled_from(TOPICS), min_size=1))
    def join(self, name: str, topics: set[str]) -> None:
        if name not in self.clients:
            self.clients[name] = Client(name, sorted(topics))
            self.beat(self.clients[name])

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def one_beats(self, data: st.DataObject) -> None:
        self.beat(self.clients[data.draw(st.sampled_from(sorted(self.clients)))])

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def one_subscribes_again(self, data: st.DataObject) -> None:
        client = self.clients[data.draw(st.sampled_from(sorted(self.clients)))]
        topics = sorted(data.draw(st.sets(st.sampled_from(TOPICS), min_size=1)))
        if client.epoch:
            client.topics = topics
            try:
                response = self.kafka.beat(client.name, client.epoch, topics=topics, owned=client.owned)
            except KafkaError as error:
                self.fenced(client, error)
                return
            self.heard(client, response)

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def one_leaves(self, data: st.DataObject) -> None:
        client = self.clients.pop(data.draw(st.sampled_from(sorted(self.clients))))
        if client.epoch:
            try:
                left = self.kafka.beat(client.name, -1).member_epoch
            except KafkaError as error:
                self.fenced(client, error)
            else:
                assert left == -1

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def one_dies(self, data: st.DataObject) -> None:
        del self.clients[data.draw(st.sampled_from(sorted(self.clients)))]

    @rule(seconds=st.integers(1, 60), quiet=st.booleans())
    def time_passes(self, seconds: int, quiet: bool) -> None:
        for _ in range(0, seconds, 3):
            self.kafka.advance(3000)
            for client in () if quiet else self.clients.values():
                self.beat(client)

    @rule(topic=st.sampled_from(TOPICS), more=st.integers(1, 3))
    def a_topic_grows(self, topic: str, more: int) -> None:
        self.kafka.topics.put(topic, self.kafka.topics.counts[topic] + more)

    @rule()
    def the_coordinator_restarts(self) -> None:
        self.kafka = self.kafka.restarted()

    # --- what must hold

    @property
    def members(self) -> list[str]:
        if "g" not in self.kafka.shard.group_ids():
            return []
        return [member.member_id for member in self.kafka.described().members]

    @invariant()
    def no_partition_has_two_owners(self) -> None:
        owners: dict[tuple[str, int], str] = {}
        for name in self.members:
            client = self.clients.get(name)
            if client is None or not client.epoch:
                continue
            for topic, partitions in client.owned.items():
                for partition in partitions:
                    assert owners.setdefault((topic, partition), name) == name, owners

    @invariant()
    def a_restart_knows_what_was_known(self) -> None:
        again = self.kafka.restarted()
        assert again.shard.group_ids() == self.kafka.shard.group_ids()
        if self.kafka.shard.group_ids():
            known, found = self.kafka.described(), again.described()
            for each in (known, found):
                each.members.sort(key=lambda member: member.member_id)
            assert found == known

    def teardown(self) -> None:
        """No member joins or leaves any more."""
        for _ in range(QUIET_ROUNDS):
            self.kafka.advance(max(3000, INTERVAL_MS))
            for client in self.clients.values():
                self.beat(client)
        assert sorted(self.members) == sorted(self.clients)
        if not self.clients:
            return
        assert self.kafka.described().group_state == "Stable"
        owned = [
            (topic, partition)
            for client in self.clients.values()
            for topic, partitions in client.owned.items()
            for partition in partitions
        ]
        expected = {topic for client in self.clients.values() for topic in client.topics}
        assert sorted(owned) == sorted(
            (topic, partition) for topic in expected for partition in range(self.kafka.topics.counts[topic])
        )


TestConsumerGroupModel = ConsumerGroupModel.TestCase
TestConsumerGroupModel.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
