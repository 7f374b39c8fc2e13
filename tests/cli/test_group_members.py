"""Groups are described whatever bytes their leader assigned."""

from itertools import cycle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.cli import group_description
from kbroker.cli.connection import Connection
from kbroker.cli.group_description import Group, read_lag
from kbroker.cli.group_members import Described, Member, describe_group
from kbroker.cli.own_requests import ask_coordinator
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.codec import encode
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages import streams_group_describe as streams
from kbroker.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from kbroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kbroker.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.cli.client_settings import SECURE, settings
from tests.cli.conftest import Shell, Target
from tests.cli.plain_login import PLAIN_ONLY, client
from tests.conftest import BrokerFactory


def assignment(*topics: TopicPartition) -> bytes:
    return b"\0\3" + encode(ConsumerProtocolAssignment(list(topics)), 3)


def join(target: Target, group: str, assigned: bytes) -> str:
    """A classic member, leader of its group, that assigned itself these bytes."""
    broker = Connection(target.bootstrap, {}, 60.0)
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=60_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol("range", b"\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff")],
    )
    first = ask_coordinator(broker, group, ApiKey.JOIN_GROUP, request)
    assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
    request.member_id = first.member_id
    joined = ask_coordinator(broker, group, ApiKey.JOIN_GROUP, request)
    sync = SyncGroupRequest(
        group_id=group,
        generation_id=joined.generation_id,
        member_id=first.member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[SyncGroupRequestAssignment(first.member_id, assigned)],
    )
    assert ask_coordinator(broker, group, ApiKey.SYNC_GROUP, sync).error_code == ErrorCode.NONE
    return str(first.member_id)


def test_a_member_with_a_malformed_assignment_is_described(
    cli: Shell, topic: str, group: str, target: Target
) -> None:
    """librdkafka ends the process here: `rd_assert` on the parsed assignment."""
    cut = assignment(TopicPartition(topic, [0, 2]), TopicPartition(topic, [1]))[:-9]
    member = join(target, group, cut)
    (found,) = cli("groups", "describe", group, "--json").json
    assert (found["state"], found["type"], found["assignor"]) == ("Stable", "classic", "range")
    (only,) = found["members"]
    assert only["partitions"] == [{"topic": topic, "partition": number} for number in (0, 2)]
    assert "truncated" in only["malformed_assignment"]
    lines = cli("groups", "describe", group, "--members").lines
    assert lines[1].startswith(f"{member}: malformed assignment: ")
    assert f"{topic}:0 {topic}:2" in lines[3]
    # the member's topic counts as a whole: records of partition 1 wait for the group, too
    assert [line.split()[1] for line in cli("groups", "describe", group).lines[3:]] == ["0", "1", "2"]


def test_bytes_of_another_protocol_are_a_malformed_assignment(
    cli: Shell, topic: str, group: str, target: Target
) -> None:
    join(target, group, b"\xff" * 40)
    (found,) = cli("groups", "describe", group, "--json").json
    assert found["members"][0]["partitions"] == []
    assert "version -1" in found["members"][0]["malformed_assignment"]
    cli("groups", "remove-members", group, "--all", "--yes")
    (left,) = cli("groups", "describe", group, "--json").json
    assert (left["state"], left["members"]) == ("Empty", [])


def test_a_group_of_the_new_protocol_is_described(cli: Shell, topic: str, group: str, target: Target) -> None:
    from tests.cli.member import member

    with member(target, topic, group, group_protocol="consumer") as consumer:
        (found,) = cli("groups", "describe", group, "--json").json
        assert (found["state"], found["type"], found["assignor"]) == ("Stable", "consumer", "uniform")
        (only,) = found["members"]
        assert (only["member_id"], only["client_id"]) == (consumer.memberid(), "the-member")
        assert only["partitions"] == [{"topic": topic, "partition": number} for number in range(3)]
        assert "malformed_assignment" not in only


def test_the_coordinator_of_a_group_is_shown(cli: Shell, topic: str, group: str, target: Target) -> None:
    cli("produce", topic, "-p", 0, "-q", stdin=b"a\n")
    cli("consume", topic, "-g", group, "--from-beginning", "-n", 1, "-q")
    brokers = {row["id"] for row in cli("cluster", "describe", "--json").json["brokers"]}
    assert cli("groups", "describe", group, "--json").json[0]["coordinator"] in brokers


@pytest.mark.compat
@pytest.mark.parametrize("listener", ["SSL", "SASL_PLAINTEXT"])
def test_a_group_is_described_over_tls_and_after_a_login(
    shell: Shell, broker_factory: BrokerFactory, tmp_path: Path, listener: str
) -> None:
    if listener == "SSL":
        bootstrap = broker_factory(settings(tmp_path, "SSL")).bootstrap
        file = tmp_path / "client.properties"
        file.write_text(SECURE.format(trusted=tmp_path / "broker.crt"))
    else:
        bootstrap = broker_factory(PLAIN_ONLY).bootstrap
        file = client(tmp_path, "secret")
    how = ("-b", bootstrap, "--command-config", file)
    shell("topics", "create", "orders", *how)
    shell("produce", "orders", "-q", *how, stdin=b"a\nb\n")
    shell("consume", "orders", "-g", "billing", "--from-beginning", "-n", 1, "-q", *how)
    (found,) = shell("groups", "describe", "billing", "--json", *how).json
    assert (found["state"], found["type"], found["lag"]) == ("Empty", "classic", 1)


class Coordinators:
    """Answers requests about one group with these responses, others with the absence of the
    group."""

    def __init__(self, answers: dict[ApiKey, Any]) -> None:
        self.answers = answers

    def offers(self, api: ApiKey) -> bool:
        return True

    def ask(self, group: str, api: ApiKey, request: object) -> tuple[int, Any]:
        missing = SimpleNamespace(error_code=ErrorCode.GROUP_ID_NOT_FOUND.value, error_message=None)
        return 1, self.answers.get(api, SimpleNamespace(groups=[missing]))


def test_a_streams_group_is_described() -> None:
    """Its members read partitions of topics: those of their active tasks."""
    member = streams.Member("m", 1, None, None, "app-1", "/10.0.0.1")
    member.assignment.active_tasks = [streams.TaskIds("0", [1, 0]), streams.TaskIds("1", [2])]
    member.assignment.standby_tasks = [streams.TaskIds("1", [0])]
    topology = streams.Topology(
        1,
        [
            streams.Subtopology("0", ["orders"]),
            streams.Subtopology("1", repartition_source_topics=[streams.TopicInfo("by-user", 3)]),
        ],
    )
    found = streams.DescribedGroup(group_id="app", group_state="Stable", topology=topology, members=[member])
    answer = streams.StreamsGroupDescribeResponse(groups=[found])
    coordinators: Any = Coordinators({ApiKey.STREAMS_GROUP_DESCRIBE: answer})
    partitions = [("by-user", 2), ("orders", 0), ("orders", 1)]
    described = Described("Stable", "streams", "", 1, [Member("m", None, "app-1", "10.0.0.1", partitions)])
    assert describe_group(coordinators, "app") == described


@pytest.mark.parametrize("error", [ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.NONE])
def test_a_group_of_no_type_is_dead(error: ErrorCode) -> None:
    """Before version 6 of DescribeGroups it is no error."""
    dead = SimpleNamespace(error_code=error.value, error_message=None, group_state="Dead")
    coordinators: Any = Coordinators({ApiKey.DESCRIBE_GROUPS: SimpleNamespace(groups=[dead])})
    assert describe_group(coordinators, "app") == Described("Dead", "classic", "", 1, [])


def test_a_task_reads_only_topics_that_have_its_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    places = [("large", 0), ("large", 1), ("small", 0), ("small", 1), ("gone", 0)]
    group = Group("app", "Stable", "streams", "", 1, [Member("m", None, "c", "h", places)])
    led = SimpleNamespace(leader=0)
    counts = (("large", 2), ("small", 1))
    topics = {name: SimpleNamespace(partitions=dict.fromkeys(range(count), led)) for name, count in counts}
    offsets = cycle((0, 3))  # log start offsets, then ends
    monkeypatch.setattr(
        group_description,
        "_offsets",
        lambda _broker, _admin, _spec, there: dict.fromkeys(there, next(offsets)),
    )
    broker: Any = SimpleNamespace(timeout_s=1.0)
    admin: Any = SimpleNamespace(list_topics=lambda timeout: SimpleNamespace(topics=topics))
    read_lag(broker, admin, group, in_seconds=False)
    assert {each: group.lag(each) for each in group.partitions()} == dict.fromkeys(places[:3], 3)
