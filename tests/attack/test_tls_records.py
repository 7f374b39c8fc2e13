"""A client of a TLS listener that sends very many short records, or changes its keys again and
again, beside a steady one."""

import re
import shutil
import socket
import ssl
import struct
import time
from pathlib import Path

import pytest

from tests.attack.processes import family
from tests.attack.steady import Steady, p99
from tests.callbacks import slowness
from tests.conftest import BrokerFactory
from tests.http.tls_store import put
from tests.net.security.key_updates import key_updates
from tests.peer.kbroker_node import KBroker

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl to make certificates with"),
]

RECORDS, UPDATES = 300_000, 60_000
ATTACK_S = 5.0
ROUNDS = 3
"""At most: a busy host may hold a client up in one of them, but not in all."""
P99_S = 0.02
GROWTH_MB = 32


class Attacker:
    """A connection after its handshake."""

    def __init__(self, port: int, folder: Path) -> None:
        self.key_log = folder / f"keys-{time.monotonic_ns()}"
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.keylog_filename = str(self.key_log)
        received, self.out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.session = context.wrap_bio(received, self.out)
        self.link = socket.create_connection(("127.0.0.1", port), timeout=60)
        while True:
            try:
                self.session.do_handshake()
                break
            except ssl.SSLWantReadError:
                self.link.sendall(self.out.read())
                received.write(self.link.recv(1 << 16))
        self.link.sendall(self.out.read())

    def records(self) -> bytes:
        """A request of 90 MB, byte by byte."""
        self.session.write(struct.pack(">ihhih4s", 90_000_000, 0, 9, 1, 4, b"slow"))
        for _ in range(RECORDS):
            self.session.write(b"x")
        return self.out.read()

    def updates(self) -> bytes:
        """Changes of its keys, each of which asks for one in return."""
        return b"".join(key_updates(self.session, self.key_log, UPDATES))

    def send(self, data: bytes) -> None:
        """As much as the broker takes in ATTACK_S; nothing is read."""
        self.link.setblocking(False)
        ends, left = time.monotonic() + ATTACK_S, memoryview(data)
        while time.monotonic() < ends:
            try:
                left = left[self.link.send(left[: 1 << 18]) :]
            except BlockingIOError:
                time.sleep(0.001)
            if not left:
                time.sleep(0.01)


@pytest.fixture
def node(broker_factory: BrokerFactory, tmp_path: Path) -> KBroker:
    return broker_factory(
        {
            "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(put(tmp_path / "broker.pem")),
            "security.inter.broker.protocol": "PLAINTEXT",
            "num.network.threads": "1",
        }
    )


@pytest.mark.parametrize("kind", ["records", "updates"])
def test_a_steady_client_is_served_beside_very_many_records(node: KBroker, tmp_path: Path, kind: str) -> None:
    """Before, one read of the socket was decrypted in one piece, up to 80 ms, and answers to
    changes of keys were kept without a bound."""
    found = re.search(r"bootstrap=(\S+)", node.logs(100_000))
    assert found is not None
    plain, tls = (int(each.rpartition(":")[2]) for each in found[1].split(","))
    rounds = []
    network = family(node)["network 0"]
    before = network.memory_info().rss
    for _ in range(ROUNDS):
        attacker = Attacker(tls, tmp_path)
        data = attacker.records() if kind == "records" else attacker.updates()
        with Steady(plain) as steady:
            attacker.send(data)
        assert network.memory_info().rss - before < GROWTH_MB << 20
        attacker.link.close()
        rounds.append(p99(steady.trips))
        if rounds[-1] < P99_S * slowness():
            return
    raise AssertionError(rounds)
