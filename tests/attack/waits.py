"""Waits of steady clients beside each attack: `python -m tests.attack.waits [WORD]...`

Each attack runs on a fresh broker, after a quiet turn of the same clients. WORD selects the attacks
whose name has it; without words all run. The table has milliseconds.
"""

import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.frame import encode_request
from kbroker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.attack.logins import MODULE
from tests.attack.long_requests import REQUESTS
from tests.attack.peers import Target
from tests.attack.probe import KINDS, TOPIC, Probe
from tests.attack.storms import PASSWORD, STORMS, USER, Ports
from tests.http.tls_store import put
from tests.peer.kbroker_node import KBroker

QUIET_S = 5.0
LONG_S = 5.0
"""Long requests follow one another for this time."""


def long_request(name: str) -> Callable[[Ports], str]:
    """The attack by one of REQUESTS."""

    def run(ports: Ports) -> str:
        api, version, make = REQUESTS[name]
        frame = encode_request(api, version, 7, "long", make())
        target, ends, count = Target(ports.plain), time.monotonic() + LONG_S, 0
        while time.monotonic() < ends:
            assert target.send(frame) is not None, "the connection was closed"
            count += 1
        return f"{count} of {len(frame) / 1e6:.1f} MB"

    return run


ATTACKS = {**{f"{name}, long": long_request(name) for name in REQUESTS}, **STORMS}


@contextmanager
def under_attack(folder: Path) -> Iterator[Ports]:
    """A broker with a listener of each kind."""
    store = put(folder / "broker.pem")
    node = KBroker(
        folder,
        {
            "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
            "security.inter.broker.protocol": "PLAINTEXT",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(store),
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{MODULE} required user_{USER}="{PASSWORD}";',
            "delegation.token.secret.key": "secret",
        },
    )
    node.start()
    try:
        found = re.search(r"bootstrap=(\S+).* metrics=http://127\.0\.0\.1:(\d+)/", node.logs(100_000))
        assert found, node.logs()
        plain, tls, sasl = (int(each.rpartition(":")[2]) for each in found[1].split(","))
        ports = Ports(plain, tls, sasl, int(found[2]))
        topics = CreateTopicsRequest([CreatableTopic(TOPIC, 1, -1)], 30_000)
        Target(ports.plain).ask(ApiKey.CREATE_TOPICS, 7, topics)
        yield ports
    finally:
        node.stop()
    assert "Traceback" not in node.logs(10_000_000), node.logs()


def waits(ports: Ports, work: Callable[[Ports], str]) -> tuple[str, dict[str, list[float]]]:
    """The outcome of some work, and the sorted waits of each kind of client beside it, in ms."""
    with ExitStack() as stack:
        probes = {
            kind: stack.enter_context(Probe(kind, ports.http if kind == "http" else ports.plain))
            for kind in KINDS
        }
        outcome = work(ports)
    return outcome, {kind: sorted(trip * 1000 for trip in probe.trips) for kind, probe in probes.items()}


def figures(trips: list[float]) -> str:
    """p50/p99/max in ms."""
    return f"{trips[len(trips) // 2]:.1f}/{trips[len(trips) * 99 // 100]:.1f}/{trips[-1]:.0f}"


def _rest(ports: Ports) -> str:
    time.sleep(QUIET_S)
    return "quiet"


def main(words: list[str]) -> int:
    """A line for each attack: produce, control and http beside it, and in the quiet turn."""
    chosen = {
        name: attack
        for name, attack in ATTACKS.items()
        if not words or any(word.lower() in name.lower() for word in words)
    }
    print("| attack | outcome | " + " | ".join(f"{kind} (quiet)" for kind in KINDS) + " |")
    print("|" + "---|" * (2 + len(KINDS)))
    for name, attack in chosen.items():
        with tempfile.TemporaryDirectory() as folder, under_attack(Path(folder)) as ports:
            _, quiet = waits(ports, _rest)
            outcome, beside = waits(ports, attack)
        cells = [f"{figures(beside[kind])} ({figures(quiet[kind])})" for kind in KINDS]
        print("| " + " | ".join((name, outcome, *cells)) + " |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
