"""Groups of real clients: sharing partitions, resuming after a restart, and Apache Kafka's own
group tools."""

import re
import time

import pytest

from tests.compat.group_clients import CLIENTS, Confluent, GroupConsumer, create_topic, poll_until, produce
from tests.conftest import BrokerFactory
from tests.peer.kbroker_node import KBroker
from tests.peer.tools import run_tool

pytestmark = pytest.mark.compat

TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


@pytest.fixture
def node(broker_factory: BrokerFactory) -> KBroker:
    return broker_factory({"group.initial.rebalance.delay.ms": "200"})


@pytest.mark.short
@pytest.mark.parametrize("client", CLIENTS)
def test_two_consumers_share_and_a_restart_loses_nothing(node: KBroker, client: str) -> None:
    create_topic(node, "shared", 6)
    produce(node, "shared", 300)
    make = CLIENTS[client]
    one: GroupConsumer = make(node.bootstrap, "shared", "team")
    assert poll_until([one], lambda taken: taken >= 300) == 300
    assert one.partitions() == set(range(6))
    one.commit()
    two = make(node.bootstrap, "shared", "team")
    poll_until([one, two], lambda _: len(one.partitions()) == len(two.partitions()) == 3)
    assert one.partitions() | two.partitions() == set(range(6))
    produce(node, "shared", 60)
    assert poll_until([one, two], lambda taken: taken >= 60) == 60
    one.commit()
    two.commit()
    one.close()
    poll_until([two], lambda _: two.partitions() == set(range(6)))
    two.close()
    node.stop()
    node.start()
    produce(node, "shared", 40)
    again = make(node.bootstrap, "shared", "team")
    assert poll_until([again], lambda taken: taken >= 40) == 40
    again.close()


@pytest.mark.parametrize("client", ["confluent-classic", "confluent-consumer"])
def test_members_continue_after_a_restart_of_the_broker(node: KBroker, client: str) -> None:
    """Sessions survive: no member has to start over, and what was committed is not read again."""
    create_topic(node, "shared", 4)
    consumers = [CLIENTS[client](node.bootstrap, "shared", "team") for _ in range(2)]
    poll_until(consumers, lambda _: all(len(each.partitions()) == 2 for each in consumers))
    produce(node, "shared", 100)
    assert poll_until(consumers, lambda taken: taken >= 100) == 100
    for each in consumers:
        each.commit()
    before = [each.partitions() for each in consumers]
    node.stop()
    node.start()
    produce(node, "shared", 50)
    assert poll_until(consumers, lambda taken: taken >= 50) == 50
    assert [each.partitions() for each in consumers] == before
    for each in consumers:
        each.close()


def test_a_group_changes_its_protocol_while_it_is_in_use(node: KBroker) -> None:
    create_topic(node, "shared", 4)
    produce(node, "shared", 100)
    old = Confluent(node.bootstrap, "shared", "team")
    poll_until([old], lambda taken: taken >= 100)
    old.commit()
    new = Confluent(node.bootstrap, "shared", "team", "consumer")
    poll_until([old, new], lambda _: len(old.partitions()) == len(new.partitions()) == 2)
    produce(node, "shared", 50)
    assert poll_until([old, new], lambda taken: taken >= 50) == 50
    new.commit()
    new.close()
    poll_until([old], lambda _: len(old.partitions()) == 4)
    old.close()


def test_kafka_consumer_groups_sees_and_changes_groups(node: KBroker, kafka_jars: str) -> None:
    create_topic(node, "shared", 2)
    produce(node, "shared", 100)
    classic: GroupConsumer = Confluent(node.bootstrap, "shared", "classic-team")
    modern: GroupConsumer = Confluent(node.bootstrap, "shared", "modern-team", "consumer")
    for consumer in (classic, modern):
        poll_until([consumer], lambda taken: taken >= 100)
        consumer.commit()
    produce(node, "shared", 10)

    def tool(*arguments: str) -> str:
        done = run_tool(TOOL, "--bootstrap-server", node.bootstrap, *arguments)
        return done.stdout + done.stderr

    listed = tool("--list", "--state", "--type")
    assert re.search(r"classic-team +Classic +Stable", listed)
    assert re.search(r"modern-team +Consumer +Stable", listed)
    for group in ("classic-team", "modern-team"):
        described = tool("--describe", "--group", group)
        lags = [int(row.split()[5]) for row in described.splitlines() if row.startswith(group)]
        assert len(lags) == 2
        assert sum(lags) == 10
        members = tool("--describe", "--members", "--verbose", "--group", group)
        assert re.search(r"shared[:(]", members)
        assert "Error" in tool("--delete", "--group", group)
    classic.close()
    modern.close()
    for group in ("classic-team", "modern-team"):
        reset = tool("--group", group, "--topic", "shared", "--reset-offsets", "--to-earliest", "--execute")
        assert len([row for row in reset.splitlines() if row.startswith(group)]) == 2
        assert "0" in tool("--describe", "--offsets", "--group", group)
        assert "successful" in tool("--delete-offsets", "--topic", "shared", "--group", group).lower()
        assert "successful" in tool("--delete", "--group", group)
    assert "team" not in tool("--list")


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_java_consumer_reads_in_a_group(node: KBroker, kafka_jars: str, protocol: str) -> None:
    create_topic(node, "shared", 3)
    produce(node, "shared", 200)
    done = run_tool(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        "--bootstrap-server",
        node.bootstrap,
        "--topic",
        "shared",
        "--group",
        "java-team",
        "--from-beginning",
        "--max-messages",
        "200",
        "--timeout-ms",
        "30000",
        "--command-property",
        f"group.protocol={protocol}",
    )
    assert len(done.stdout.splitlines()) == 200
    deadline = time.monotonic() + 60
    described = ""
    while not re.search(r"java-team +shared", described) and time.monotonic() < deadline:
        described = run_tool(
            TOOL, "--bootstrap-server", node.bootstrap, "--describe", "--group", "java-team"
        ).stdout
    lags = [int(row.split()[5]) for row in described.splitlines() if row.startswith("java-team")]
    assert sum(lags) == 0
