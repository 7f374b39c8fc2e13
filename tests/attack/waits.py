"""Waits of steady clients beside each attack: `python -m tests.attack.waits [--kafka] [WORD]...`

Each attack runs on a fresh broker, after a quiet turn of the same clients. WORD selects the attacks
whose name has it; without words all run. --kafka: also on Apache Kafka, which has no http port. The
table has milliseconds: median/p99/maximum.
"""

import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.frame import encode_request
from kbroker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kbroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from tests.attack.logins import MODULE
from tests.attack.long_requests import REQUESTS
from tests.attack.peers import Target
from tests.attack.probe import KINDS, TOPIC, Probe
from tests.attack.processes import until
from tests.attack.storms import PASSWORD, STORMS, USER, Ports
from tests.http.tls_store import put
from tests.peer.apache_kafka import ApacheKafka
from tests.peer.kbroker_node import KBroker
from tests.peer.ports import free_port

GROUP, TRANSACTION = 0, 1
QUIET_S = 3.0
KAFKA_HEAP = "2g"
LONG_S = 5.0
"""Long requests follow one another for this time."""


def long_request(name: str) -> Callable[[Ports], str]:
    """The attack by one of REQUESTS."""

    def run(ports: Ports) -> str:
        api, version, make = REQUESTS[name]
        frame = encode_request(api, version, 7, "long", make())
        target, ends, count = Target(ports.plain), time.monotonic() + LONG_S, 0
        while time.monotonic() < ends:
            if target.send(frame) is None:
                return f"the connection was closed after {count} answers"
            count += 1
        return f"{count} of {len(frame) / 1e6:.1f} MB"

    return run


AttackedBroker = Callable[[Path], AbstractContextManager[Ports]]
ATTACKS = {**{f"{name}, long": long_request(name) for name in REQUESTS}, **STORMS}


def settings(folder: Path, plain: int = 0, tls: int = 0, sasl: int = 0) -> dict[str, str]:
    """Of a broker with a listener of each kind."""
    ports = {"PLAINTEXT": plain, "SSL": tls, "SASL_PLAINTEXT": sasl}
    return {
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
        "security.inter.broker.protocol": "PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(put(folder / "broker.pem")),
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{MODULE} required user_{USER}="{PASSWORD}";',
        "delegation.token.secret.key": "secret",
    }


@contextmanager
def kafka(folder: Path) -> Iterator[Ports]:
    """Apache Kafka under attack."""
    ports = Ports(free_port(), free_port(), free_port(), 0)
    given = settings(folder, ports.plain, ports.tls, ports.sasl)
    given["advertised.listeners"] = given["listeners"]
    controller = f"127.0.0.1:{free_port()}"
    given["listeners"] += f",CONTROLLER://{controller}"
    given["controller.quorum.voters"] = f"1@{controller}"
    names = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT")
    given["listener.security.protocol.map"] = ",".join([f"{n}:{n}" for n in names] + ["CONTROLLER:PLAINTEXT"])
    node = ApacheKafka(folder / "kafka", heap=KAFKA_HEAP)
    node.port = ports.plain
    node.start(given)
    try:
        _prepare(ports)
        yield ports
    finally:
        node.stop()


@contextmanager
def kbroker(folder: Path) -> Iterator[Ports]:
    """A kbroker under attack."""
    node = KBroker(folder, settings(folder))
    node.start()
    try:
        found = re.search(r"bootstrap=(\S+).* metrics=http://127\.0\.0\.1:(\d+)/", node.logs(100_000))
        assert found, node.logs()
        plain, tls, sasl = (int(each.rpartition(":")[2]) for each in found[1].split(","))
        ports = Ports(plain, tls, sasl, int(found[2]))
        _prepare(ports)
        yield ports
    finally:
        node.stop()
    assert "Traceback" not in node.logs(10_000_000), node.logs()


def _prepare(ports: Ports) -> None:
    """Make the topic, and those of the coordinators: without them a storm is refused at once."""
    target = Target(ports.plain)
    target.ask(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest([CreatableTopic(TOPIC, 1, -1)], 30_000))
    for kind in (GROUP, TRANSACTION):
        request = FindCoordinatorRequest("", kind, ["any"])
        until(lambda: not target.ask(ApiKey.FIND_COORDINATOR, 6, request).coordinators[0].error_code)  # noqa: B023
    producer = InitProducerIdRequest("any", 60_000, -1, -1)
    until(lambda: not target.ask(ApiKey.INIT_PRODUCER_ID, 4, producer).error_code)


BROKERS: dict[str, AttackedBroker] = {"kbroker": kbroker, "Apache Kafka": kafka}


def waits(ports: Ports, work: Callable[[Ports], str]) -> tuple[str, dict[str, str]]:
    """The outcome of some work, and the waits of each kind of client beside it."""
    with ExitStack() as stack:
        probes = {
            kind: stack.enter_context(Probe(kind, ports.http if kind == "http" else ports.plain))
            for kind in KINDS
            if kind != "http" or ports.http
        }
        outcome = work(ports)
    return outcome, {kind: figures(probe) for kind, probe in probes.items()}


def figures(probe: Probe) -> str:
    """p50/p99/max in ms, and how many trips had no answer."""
    trips = sorted(trip * 1000 for trip in probe.trips)
    refused = f", {probe.refused} unanswered" if probe.refused else ""
    return f"{trips[len(trips) // 2]:.1f}/{trips[len(trips) * 99 // 100]:.1f}/{trips[-1]:.0f}{refused}"


def _rest(ports: Ports) -> str:
    time.sleep(QUIET_S)
    return "quiet"


def row(name: str, broker: str) -> list[str]:
    """A line of the table."""
    with tempfile.TemporaryDirectory() as folder, BROKERS[broker](Path(folder)) as ports:
        _, quiet = waits(ports, _rest)
        outcome, beside = waits(ports, ATTACKS[name])
    cells = [f"{beside[kind]} ({quiet[kind]})" if kind in beside else "none" for kind in KINDS]
    return [name, broker, outcome, *cells]


def main(words: list[str]) -> int:
    """A line for each attack and broker: waits beside it, and in the quiet turn."""
    brokers = [name for name in BROKERS if name == "kbroker" or "--kafka" in words]
    words = [word for word in words if word != "--kafka"]
    print("| attack | broker | outcome | " + " | ".join(f"{kind} (quiet)" for kind in KINDS) + " |")
    print("|" + "---|" * (3 + len(KINDS)))
    for name in ATTACKS:
        if words and not any(word.lower() in name.lower() for word in words):
            continue
        for broker in brokers:
            if broker == "kbroker" or not name.startswith("http: "):
                print("| " + " | ".join(row(name, broker)) + " |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
