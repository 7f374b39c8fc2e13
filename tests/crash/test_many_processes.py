"""Eight network processes and eight IO workers, more than a small host has cores: order and
nothing lost, also while some of them are killed."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.crash.load import Load, create_topic, judge, read_all
from tests.crash.seeds import chances
from tests.peer.kbroker_node import KBroker

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]

PROCESSES = 8
LOADS = 8
"""Each has a connection and three partitions of its own: all workers have some."""
KILLS = 6
SETTINGS = {
    "num.network.threads": str(PROCESSES),
    "num.io.threads": str(PROCESSES),
    "log.segment.bytes": "1048576",
}


def test_eight_of_each_kind_keep_order_and_lose_nothing(broker_factory: Callable[..., KBroker]) -> None:
    broker = broker_factory(SETTINGS)
    titles = broker.children()
    assert {f"kbroker: {role} {n}" for role in ("network", "io") for n in range(PROCESSES)} <= set(titles)
    loads = [Load(broker.bootstrap, f"wide-{number}") for number in range(LOADS)]
    for load in loads:
        create_topic(broker.bootstrap, load.topic)
        load.start()
    chosen = chances()
    victims = [
        f"{role} {chosen.randrange(PROCESSES)}" for role in ("network", "io") for _ in range(KILLS // 2)
    ]
    try:
        for load in loads:
            load.wait_for_ack(0)
        for victim in victims:
            broker.kill9_running(victim)
            for load in loads:
                load.wait_for_ack(load.count)
    finally:
        with ThreadPoolExecutor(LOADS) as stopping:
            list(stopping.map(Load.stop, loads))
    for load in loads:
        judge(load, read_all(broker.bootstrap, load.topic))
    broker.stop()
