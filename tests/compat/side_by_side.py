"""Apache Kafka and kbroker side by side: the same conversation with each, and where their answers
differ."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.compat.raw import SocketPeer, differences
from tests.peer.apache_kafka import QUICK_START, ApacheKafka
from tests.peer.kbroker_node import KBroker

Lines = list[tuple[str, object]]
"""Of a conversation: (label, answer)."""


@contextmanager
def side_by_side(
    folder: Path, settings: Mapping[str, str] | None = None
) -> Iterator[tuple[ApacheKafka, KBroker]]:
    """Both with the same settings, in folders of their own; stopped at the end."""
    given = dict(settings or {})
    kafka, broker = ApacheKafka(folder / "kafka", jvm=QUICK_START), KBroker(folder / "kbroker", given)
    try:
        kafka.start(given)
        broker.start()
        yield kafka, broker
    finally:
        broker.stop()
        kafka.stop()


def raw_peers(kafka: ApacheKafka, broker: KBroker) -> tuple[SocketPeer, SocketPeer]:
    """Connections that send requests of any version."""
    return SocketPeer(kafka.port, "raw"), SocketPeer(int(broker.bootstrap.rpartition(":")[2]), "raw")


def unlike(expected: Lines, found: Lines) -> str:
    """Where kbroker answered otherwise, a line each; empty when nowhere."""
    assert [label for label, _ in expected] == [label for label, _ in found]
    return "\n".join(
        f"{index} {label}: {line}"
        for index, ((label, theirs), (_, ours)) in enumerate(zip(expected, found, strict=True))
        for line in differences(theirs, ours)
    )
