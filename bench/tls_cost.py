"""`python -m bench.tls_cost`: CPU that the broker needs for a GB over TLS, beside the same without:
one broker with a listener of each kind, in turns. The model of `kbroker tune size` has the
difference, and the bare TLS of this host by which it is scaled.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from statistics import median

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench.generator import CACHE
from tests.certificates import certificate
from tests.peer.kbroker_node import KBroker
from tests.peer.ports import free_port
from tuning.bench.tls import measure_tls

VALUE = bytes(64 << 10)
GB = 1e9
LISTENERS = ("PLAINTEXT", "SSL")
Client = dict[str, str | int]


def produce(client: Client, topic: str, count: int) -> None:
    """Produce `count` records of 64 KiB."""
    producer = Producer(
        client | {"queue.buffering.max.messages": 2000, "batch.size": 1 << 20, "linger.ms": 5}
    )
    for _ in range(count):
        while True:
            try:
                producer.produce(topic, VALUE)
                break
            except BufferError:
                producer.poll(0.1)
    if left := producer.flush(120):
        raise RuntimeError(f"{left} records were not written")


def consume(client: Client, topic: str, count: int) -> None:
    """All of them, from the page cache."""
    consumer = Consumer(client | {"group.id": "none", "enable.auto.commit": "false"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    got = 0
    while got < count:
        got += len(consumer.consume(1000, 5.0))
    consumer.close()


def turn(node: KBroker, client: Client, topic: str, count: int) -> tuple[float, float]:
    """CPU s a GB of the broker, for what comes in and for what goes out."""
    admin = AdminClient({"bootstrap.servers": client["bootstrap.servers"], **client})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    start = node.cpu_s()
    produce(client, topic, count)
    middle = node.cpu_s()
    consume(client, topic, count)
    end = node.cpu_s()
    admin.delete_topics([topic])[topic].result(30)
    amount = count * len(VALUE) / GB
    return (middle - start) / amount, (end - middle) / amount


def clients_of(folder: Path) -> tuple[KBroker, dict[str, Client]]:
    """A broker that has not been started, and the settings of its clients by listener."""
    certificate(folder, "localhost", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost")
    store = folder / "store.pem"
    store.write_text((folder / "localhost.key").read_text() + (folder / "localhost.crt").read_text())
    ports = {name: free_port() for name in LISTENERS}
    settings = {
        "listeners": ",".join(f"{name}://localhost:{port}" for name, port in ports.items()),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(store),
    }
    trust = {"security.protocol": "ssl", "ssl.ca.location": str(folder / "localhost.crt")}
    clients: dict[str, Client] = {
        name: {"bootstrap.servers": f"localhost:{port}", **(trust if name == "SSL" else {})}
        for name, port in ports.items()
    }
    return KBroker(folder, settings), clients


def measure(folder: Path, pairs: int, count: int) -> dict[str, list[tuple[float, float]]]:
    """(in, out) in CPU s a GB, by listener."""
    node, clients = clients_of(folder)
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in LISTENERS}
    node.start()
    try:
        for number in range(pairs + 1):
            for name in LISTENERS if number % 2 else LISTENERS[::-1]:
                costs = turn(node, clients[name], f"{name.lower()}-{number}", count)
                if number:  # the first turns compile and fill
                    found[name].append(costs)
    finally:
        node.kill9()
    return found


def main() -> int:
    made = argparse.ArgumentParser(prog="python -m bench.tls_cost", description=__doc__)
    made.add_argument("--pairs", type=int, default=5)
    made.add_argument("--megabytes", type=int, default=500, help="produced and consumed in a turn")
    made.add_argument("--folder", type=Path, default=CACHE)
    options = made.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    print(f"bare TLS in memory: {measure_tls(2.0):.3f} s a GB for one side", flush=True)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        found = measure(Path(folder), options.pairs, options.megabytes * 1_000_000 // len(VALUE))
    print("| listener | CPU for a GB in | CPU for a GB out |\n|---|---|---|")
    for name, rows in found.items():
        cells = [
            f"{median(side):.2f} s ({min(side):.2f} to {max(side):.2f})" for side in zip(*rows, strict=True)
        ]
        print(f"| {name} | {' | '.join(cells)} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
