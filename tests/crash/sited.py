"""A broker with replica sites for the crash tests: log dirs of their own, and what tools see of its
partitions."""

import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from tests.peer.kbroker_node import KBroker
from tests.peer.ports import free_ports

CREATED_S = 120


def start_sites(
    broker_factory: Callable[..., KBroker], folder: Path, count: int, settings: dict[str, str] | None = None
) -> tuple[KBroker, list[Path]]:
    """A broker whose log dirs are a site each; the dirs."""
    dirs = [folder / f"site{number}" for number in range(count)]
    broker = broker_factory(
        {
            "listeners": f"PLAINTEXT://127.0.0.1:{free_ports(count)}",
            "log.dirs": ",".join(map(str, dirs)),
            "kbroker.replica.sites": ";".join(map(str, dirs)),
            **(settings or {}),
        }
    )
    return broker, dirs


def create(
    broker: KBroker, topic: str, partitions: int, factor: int, config: dict[str, str] | None = None
) -> None:
    """A topic with replicas. A disk that other tests use holds each sync up, for 15 s at worst."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    new = NewTopic(topic, partitions, factor, config=config or {})
    admin.create_topics([new], request_timeout=CREATED_S)[topic].result(CREATED_S)


def described(broker: KBroker, topic: str) -> dict[int, tuple[int, list[int], list[int]]]:
    """(leader, replicas, in-sync replicas) by partition."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    found = admin.list_topics(topic, timeout=30).topics[topic].partitions
    return {index: (p.leader, list(p.replicas), sorted(p.isrs)) for index, p in found.items()}


def wait_for_in_sync(broker: KBroker, topic: str, count: int, timeout_s: float = 120) -> None:
    """Until every partition has this many in-sync replicas."""
    deadline = time.monotonic() + timeout_s
    while any(len(in_sync) != count for _, _, in_sync in described(broker, topic).values()):
        assert time.monotonic() < deadline, (
            f"not {count} in sync: {described(broker, topic)}\n{broker.logs()}"
        )
        time.sleep(0.05)


def led_again_s(broker: KBroker, since_s: float) -> float:
    """Seconds from a moment (time.time) to the last change of a leader, by what the broker
    logged."""
    moments = [
        datetime.fromisoformat(line.split()[0]).timestamp()
        for line in broker.logs(1 << 20).splitlines()
        if ": leader with epoch" in line
    ]
    later = [moment - since_s for moment in moments if moment >= since_s]
    assert later, f"no partition has another leader\n{broker.logs()}"
    return max(later)


def log_bytes(folder: Path, topic: str, partition: int) -> bytes:
    """All segments of a replica, one after the other."""
    return b"".join(path.read_bytes() for path in sorted((folder / f"{topic}-{partition}").glob("*.log")))
