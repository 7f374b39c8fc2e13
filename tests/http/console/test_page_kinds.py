"""Groups of every kind in the page, in Debian's Chromium: consumer (KIP-848), share and streams."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import (  # type: ignore[attr-defined] # its stubs know no ShareConsumer
    Consumer,
    Producer,
    ShareConsumer,
)
from confluent_kafka.admin import AdminClient, NewTopic, ResourceType

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.messages.streams_group_heartbeat import (
    RequestTaskIds,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    Topology,
)
from tests.compat.raw import SocketPeer
from tests.http.console.browser import IN_A_BROWSER
from tests.http.console.page import Page
from tests.peer.configs import set_configs
from tests.peer.eventually import eventually
from tests.peer.kbroker_node import KBroker

pytestmark = [pytest.mark.compat, IN_A_BROWSER]

KINDS = ("classic", "consumer", "share", "streams")


def configure_group(node: KBroker, group: str, **settings: str) -> None:
    named = {key.replace("_", "."): value for key, value in settings.items()}
    set_configs(node.bootstrap, ResourceType.GROUP, group, named)


@contextmanager
def consumer_of(node: KBroker, group: str) -> Iterator[None]:
    """A member of a group of the new protocol, that has taken and committed."""
    settings = {"bootstrap.servers": node.bootstrap, "group.id": group, "client.id": f"{group}-client"}
    consumer = Consumer(
        settings
        | {"group.protocol": "consumer", "auto.offset.reset": "earliest", "group.instance.id": "desk-1"}
    )
    consumer.subscribe(["orders"])
    eventually(lambda: (message := consumer.poll(0.5)) is not None and message.error() is None)
    consumer.commit(asynchronous=False)
    yield
    consumer.close()


@contextmanager
def share_of(node: KBroker, group: str) -> Iterator[None]:
    """A member of a share group, that has acknowledged all records."""
    configure_group(node, group, share_auto_offset_reset="earliest")
    settings = {"bootstrap.servers": node.bootstrap, "group.id": group, "client.id": f"{group}-client"}
    with ShareConsumer(settings) as consumer:
        consumer.subscribe(["tasks"])
        taken: list[Any] = []

        def all_taken() -> bool:
            taken.extend(consumer.poll(0.3) or ())
            return len(taken) >= 20

        eventually(all_taken)
        consumer.commit_sync()
        yield


@contextmanager
def streams_of(node: KBroker, group: str) -> Iterator[None]:
    """A member of a streams group that runs all tasks of its only subtopology."""
    configure_group(node, group, streams_initial_rebalance_delay_ms="0")
    peer = SocketPeer(int(node.bootstrap.rpartition(":")[2]), f"{group}-client")
    topology = Topology(0, [Subtopology("0", ["tasks"])])
    epoch = 0
    active: dict[str, list[int]] = {}

    def beat() -> bool:
        nonlocal epoch, active
        first = epoch == 0
        request = StreamsGroupHeartbeatRequest(
            group, "S" * 22, epoch,
            rebalance_timeout_ms=30_000 if first else -1,
            topology=topology if first else None,
            process_id="p" if first else None,
            active_tasks=[RequestTaskIds(key, each) for key, each in active.items()],
            standby_tasks=[], warmup_tasks=[],
        )  # fmt: skip
        answer: Any = peer.ask(ApiKey.STREAMS_GROUP_HEARTBEAT, 0, request)
        assert answer.error_code == 0, answer
        epoch = answer.member_epoch
        if answer.active_tasks is not None:
            active = {each.subtopology_id: each.partitions for each in answer.active_tasks}
        return bool(active)

    eventually(beat)
    beat()  # it runs its tasks
    yield


@pytest.fixture(scope="module")
def members(node: KBroker) -> Iterator[None]:
    """One member of each kind; "billing" of the fixtures' broker is classic."""
    client = {"bootstrap.servers": node.bootstrap}
    admin = AdminClient(client)  # one that is gone answers nothing
    admin.create_topics([NewTopic("tasks", 2, 1)])["tasks"].result(120)
    producer = Producer(client)
    for number in range(20):
        producer.produce("tasks", b"x", key=str(number))
    assert producer.flush(120) == 0
    with consumer_of(node, "new-consumer"), share_of(node, "new-share"), streams_of(node, "new-streams"):
        yield


@pytest.mark.parametrize("kind", KINDS)
def test_groups_are_chosen_by_their_kind(page: Page, members: None, kind: str) -> None:
    page.show("groups")
    page.browser.wait("document.querySelectorAll('main tbody tr').length === 4")
    kinds = "[...document.querySelectorAll('main tbody [data-title=Kind]')].map(e => e.textContent)"
    assert set(page.browser.run(kinds)) == set(KINDS)
    page.enter("main select", kind)
    page.browser.wait(f"JSON.stringify({kinds}) === JSON.stringify(['{kind}'])")


def test_a_consumer_group_shows_its_static_member_and_its_lag(page: Page, members: None) -> None:
    page.show("groups/new-consumer")
    page.sees("consumer group")
    page.sees("Stable")
    page.sees("assignor uniform")
    page.sees("desk-1 (static)")
    page.sees("Members (1)")
    for row in ("orders/0", "orders/1"):
        page.browser.wait(f"{page.cell(row, 'Client')}?.startsWith('new-consumer-client')")
    assert "Reset offsets" in page.buttons()


def test_a_share_group_shows_its_start_offsets_and_no_reset(page: Page, members: None) -> None:
    page.show("groups/new-share")
    page.sees("share group")
    page.sees("Stable")
    # as in Kafka, the stored start follows with the next write; acknowledged records are no lag
    # already
    page.browser.wait(f"{page.cell('tasks/0', 'Start')} === '0' && {page.cell('tasks/0', 'Lag')} === '0'")
    assert page.browser.run(page.cell("tasks/1", "Client")).startswith("new-share-client")
    assert "Reset offsets" not in page.buttons()


def test_a_streams_group_shows_its_tasks_as_partitions(page: Page, members: None) -> None:
    page.show("groups/new-streams")
    page.sees("streams group")
    page.sees("Stable")
    page.browser.wait("document.querySelector('main [data-title=Assignment]')?.innerText === 'tasks 0, 1'")
    for row in ("tasks/0", "tasks/1"):
        assert page.browser.run(page.cell(row, "Client")).startswith("new-streams-client")
    assert "Reset offsets" not in page.buttons()


@pytest.mark.parametrize(
    ("topic", "readers"), [("orders", "billing,new-consumer"), ("tasks", "new-share,new-streams")]
)
def test_a_topic_shows_the_groups_of_every_kind_that_read_it(
    page: Page, members: None, topic: str, readers: str
) -> None:
    names = "[...document.querySelectorAll('main tbody [data-title=Group]')].map(e => e.textContent)"
    page.show(f"topics/{topic}/groups")
    page.browser.wait(f"{names}.sort().join() === '{readers}'")
    if topic == "tasks":
        page.browser.wait(f"{page.cell('#/groups/new-share', 'Lag in this topic')} === '0'")
