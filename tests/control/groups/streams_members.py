"""Members of a streams group, for tests: what an application remembers and sends."""

from kbroker.control.groups.caller import Caller
from kbroker.control.groups.settings import GroupSettings
from kbroker.control.groups.streams_group.heartbeat import HeartbeatResult
from kbroker.control.groups.streams_group.state import StreamsGroup
from kbroker.protocol.messages.streams_group_heartbeat import (
    CopartitionGroup,
    KeyValue,
    RequestEndpoint,
    RequestTaskIds,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TopicInfo,
    Topology,
)
from tests.control.groups.coordinator import Coordinator

GROUP = "app"
INTERVAL_MS = 1000
DELAY_MS = 3000
"""streams.initial.rebalance.delay.ms: the first assignment waits for more members."""

Tasks = dict[str, list[int]]


def word_count() -> Topology:
    """Lines to words, repartitioned, counted with a state store."""
    return Topology(
        0,
        [
            Subtopology("0", ["lines"], repartition_sink_topics=["words"]),
            Subtopology(
                "1",
                repartition_source_topics=[
                    TopicInfo("words", topic_configs=[KeyValue("retention.ms", "-1")])
                ],
                state_changelog_topics=[
                    TopicInfo("counts", topic_configs=[KeyValue("cleanup.policy", "compact")])
                ],
                copartition_groups=[CopartitionGroup(repartition_source_topics=[0])],
            ),
        ],
    )


def application(lines: int = 4, settings: GroupSettings | None = None) -> Coordinator:
    """A coordinator with the source topic of `word_count`."""
    kafka = Coordinator(settings)
    kafka.topics.put("lines", lines)
    return kafka


class Process:
    """One member that does what the protocol asks: it runs what it is given, and gives up what it
    is not."""

    def __init__(
        self, kafka: Coordinator, name: str, process: str = "", topology: Topology | None = None
    ) -> None:
        self.kafka, self.name = kafka, name
        self.process = process or f"process-{name}"
        self.epoch = 0
        self.active: Tasks = {}
        self.standby: Tasks = {}
        self.topology = topology or word_count()
        self.status: list[tuple[int, str]] = []
        self.missing: list[str] = []
        self.beat()

    def request(self, **fields: object) -> StreamsGroupHeartbeatRequest:
        first = self.epoch == 0
        request = StreamsGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self.name,
            member_epoch=self.epoch,
            rebalance_timeout_ms=30_000 if first else -1,
            topology=self.topology if first else None,
            process_id=self.process if first else None,
            active_tasks=_ids(self.active),
            standby_tasks=_ids(self.standby),
            warmup_tasks=[],
        )
        if first and self.process.startswith("shown-"):
            request.user_endpoint = RequestEndpoint(self.process, 1000)
        for name, value in fields.items():
            setattr(request, name, value)
        return request

    def beat(self, **fields: object) -> HeartbeatResult:
        """One heartbeat; internal topics that the answer specs for are made, as the API's handler
        does."""
        outcome = self.kafka.shard.streams_heartbeat(
            Caller("client", "/127.0.0.1", 0), self.request(**fields), self.kafka.now_ms
        )
        result = self.kafka.run(outcome)
        assert isinstance(result, HeartbeatResult)
        response = result.response
        self.epoch = max(response.member_epoch, 0)
        if response.active_tasks is not None:
            self.active = {each.subtopology_id: each.partitions for each in response.active_tasks}
            self.standby = {each.subtopology_id: each.partitions for each in response.standby_tasks or ()}
        self.status = [(each.status_code, each.status_detail) for each in response.status or ()]
        self.missing = [topic.name for topic in result.missing]
        for topic in result.missing:
            self.kafka.topics.put(topic.name, topic.partitions)
        return result

    def leave(self) -> None:
        self.beat(member_epoch=-1, active_tasks=None, standby_tasks=None, warmup_tasks=None)
        self.epoch, self.active, self.standby = 0, {}, {}


def settle(kafka: Coordinator, *members: Process) -> None:
    """Everybody heartbeats until nothing moves."""
    kafka.advance(DELAY_MS)
    for _ in range(8):
        kafka.advance(INTERVAL_MS)
        for member in members:
            member.beat()
    assert kafka.shard.describe_streams_group(GROUP).group_state == "Stable"


def active_tasks(*members: Process) -> dict[tuple[str, int], str]:
    """Who runs each task; fails when two do."""
    found: dict[tuple[str, int], str] = {}
    for member in members:
        for key, partitions in member.active.items():
            for partition in partitions:
                assert (key, partition) not in found
                found[key, partition] = member.name
    return found


def group_of(kafka: Coordinator) -> StreamsGroup:
    group = kafka.shard.table.groups[GROUP]
    assert isinstance(group, StreamsGroup)
    return group


def _ids(tasks: Tasks) -> list[RequestTaskIds]:
    return [RequestTaskIds(key, partitions) for key, partitions in tasks.items()]
