"""A power cut: everything that was not written to the device is gone. What each setting keeps
(docs/durability.md).

The log dir lies on a file system of its own; the cut is the kernel's shutdown of it without
flushing anything.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.crash.load import read_all
from tests.crash.loop_disk import LoopDisk
from tests.peer.eventually import eventually
from tests.peer.kbroker_node import KBroker
from tests.peer.scrape import scrape

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]

RECORDS = 300
SETTINGS = {
    "cached": {},
    "durable": {"write.caching": "false"},
    "every-record": {"flush.messages": "1"},
    "every-100": {"flush.messages": "100"},
    "every-200-ms": {"flush.ms": "200"},
}
ROLLING = {name: {**config, "segment.ms": "300"} for name, config in SETTINGS.items()}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[LoopDisk]:
    made = LoopDisk(tmp_path / "disk", 256)
    yield made
    made.remove()


def produce(bootstrap: str, topic: str, pause_s: float = 0) -> dict[int, int]:
    """RECORDS numbers, one after the other; those acknowledged, by offset."""
    acknowledged: dict[int, int] = {}

    def delivered(error: KafkaError | None, message: Message) -> None:
        offset, value = message.offset(), message.value()
        assert error is None
        assert offset is not None
        assert value is not None
        acknowledged[offset] = int(value)

    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0})
    for number in range(RECORDS):
        producer.produce(topic, str(number), partition=0, on_delivery=delivered)
        producer.poll(pause_s)
        if number % 20 == 0:
            producer.flush(60)
    assert producer.flush(120) == 0
    return acknowledged


def durable_offset(broker: KBroker, topic: str) -> float:
    return scrape(broker).value("kbroker_log_durable_offset", topic=topic, partition="0")


@pytest.mark.parametrize("configs", [SETTINGS, ROLLING], ids=["one segment", "many segments"])
def test_each_setting_keeps_its_promise(
    configs: dict[str, dict[str, str]], disk: LoopDisk, broker_factory: Callable[..., KBroker]
) -> None:
    broker = broker_factory({"log.dirs": str(disk.folder / "data"), "offsets.topic.num.partitions": "1"})
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    made = admin.create_topics([NewTopic(name, 1, 1, config=config) for name, config in configs.items()])
    for future in made.values():
        future.result(120)
    sent = {
        name: produce(broker.bootstrap, name, 0.001) for name in ("every-200-ms", "durable", "every-record")
    }
    sent |= {name: produce(broker.bootstrap, name) for name in ("every-100",)}
    eventually(lambda: durable_offset(broker, "every-200-ms") == RECORDS)
    sent["cached"] = produce(broker.bootstrap, "cached")
    disk.fail()
    broker.kill9()
    disk.remount()
    broker.start()
    kept = {name: read_all(broker.bootstrap, name, partitions=[0])[0] for name in configs}
    print({name: f"{len(found)} of {len(sent[name])}" for name, found in kept.items()})
    for name, found in kept.items():  # never anything but a whole prefix
        assert found == dict(list(sent[name].items())[: len(found)]), name
    for name in ("durable", "every-record", "every-200-ms"):
        assert kept[name] == sent[name], name
    assert len(kept["every-100"]) >= RECORDS // 100 * 100 - 100
    assert len(kept["cached"]) < RECORDS, "the device has dropped nothing, so this shows nothing"
    for name in configs:
        assert len(produce(broker.bootstrap, name)) == RECORDS


def test_a_clean_stop_keeps_everything(disk: LoopDisk, broker_factory: Callable[..., KBroker]) -> None:
    broker = broker_factory({"log.dirs": str(disk.folder / "data")})
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic("cached", 1, 1)])["cached"].result(120)
    sent = produce(broker.bootstrap, "cached")
    broker.stop()
    disk.fail()
    disk.remount()
    broker.start()
    assert read_all(broker.bootstrap, "cached", partitions=[0])[0] == sent
