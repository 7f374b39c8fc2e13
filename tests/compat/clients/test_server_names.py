"""One listener with several certificates: real clients get that of the name which they send, also
after the store has been replaced, and garbage for a name harms nothing."""

import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from cryptography import x509
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption

from kbroker.config.broker import BrokerConfig
from kbroker.config.key_store import key_store, texts
from tests.conftest import RUNNING
from tests.key_stores import PASSWORD, Made, authorities, made, put, settings, single
from tests.peer.java import find_java
from tests.peer.kbroker_node import KBroker

pytestmark = [
    pytest.mark.compat,
    pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl as a client"),
]
RENEWED_S = 60


def new_entries() -> list[Made]:
    return [
        made("first", "first.example"),
        made("second", "second.example", "*.second.example"),
        made("here", "localhost"),
    ]


@dataclass
class Served:
    node: KBroker
    folder: Path
    entries: list[Made]

    @property
    def port(self) -> int:
        return int(self.node.bootstrap.rpartition(":")[2])

    def seen(self, *options: str | bytes) -> x509.Certificate:
        """What `openssl s_client` is presented with."""
        command = ["openssl", "s_client", "-connect", f"127.0.0.1:{self.port}", *options]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        return x509.load_pem_x509_certificate(done.stdout)

    def of(self, alias: str) -> x509.Certificate:
        return next(each.chain[0] for each in self.entries if each.alias == alias)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("names")
    entries = new_entries()
    node = KBroker(
        folder / "node",
        {"listeners": "SSL://localhost:0", **settings(put(folder / "keys.p12", *entries))},
    )
    RUNNING.append(node)
    node.start()
    yield Served(node, folder, entries)
    RUNNING.remove(node)
    node.stop()


CASES = {
    ("-servername", "first.example"): "first",
    ("-servername", "second.example"): "second",
    ("-servername", "SECOND.Example", "-tls1_2"): "second",
    ("-servername", "a.second.example"): "second",
    ("-servername", "a.b.second.example"): "first",
    ("-servername", "unknown.example"): "first",
    ("-noservername",): "first",
    ("-noservername", "-tls1_2"): "first",
}


@pytest.mark.parametrize(("options", "alias"), CASES.items())
def test_openssl_gets_the_certificate_of_the_name(
    served: Served, options: tuple[str, ...], alias: str
) -> None:
    assert served.seen(*options) == served.of(alias)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_python_verifies_the_name_and_resumes_its_session(served: Served, version: ssl.TLSVersion) -> None:
    trust = authorities(served.folder / "all.pem", served.entries)
    context = ssl.create_default_context(cafile=str(trust))
    context.maximum_version = version
    session = None
    for resumed in (False, True):
        with (
            socket.create_connection(("127.0.0.1", served.port), timeout=60) as plain,
            context.wrap_socket(plain, server_hostname="second.example", session=session) as link,
        ):
            assert link.session_reused is resumed
            if version is ssl.TLSVersion.TLSv1_3:  # its tickets come with the first bytes
                link.sendall(b"\0\0\0\x0c\0\x12\0\0\0\0\0\7\0\2hi")  # ApiVersions
                assert link.recv(4)
            session = link.session


def test_librdkafka_verifies_the_name_of_the_broker(served: Served) -> None:
    """That of the third entry: with the first certificate it would not connect."""
    client: dict[str, Any] = {
        "bootstrap.servers": served.node.bootstrap,
        "security.protocol": "SSL",
        "ssl.ca.location": str(authorities(served.folder / "here.pem", served.entries[2:])),
        "ssl.endpoint.identification.algorithm": "https",
    }
    producer = Producer(client)
    producer.produce("named", "value")
    assert producer.flush(90) == 0


GARBAGE = [
    b"\xff\xfe\xfd",
    "bücher.example".encode(),
    b"*.second.example",
    b"..",
    b" ",
    b"second.example second.example",
    b"x" * 255,
    b"x" * 256,
    b"%s%n",
    b"127.0.0.1",
]


def test_garbage_for_a_name_is_answered_or_refused_without_a_traceback(served: Served) -> None:
    before = served.node.log_file.stat().st_size
    for name in GARBAGE * 3:
        command = ["openssl", "s_client", "-connect", f"127.0.0.1:{served.port}", "-servername", name]
        subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=60)
    assert served.seen("-servername", "second.example") == served.of("second")
    log = served.node.log_file.read_bytes()[before:]
    assert b"Traceback" not in log
    assert b"Exception ignored" not in log
    assert len(log) < 20_000


def test_a_replaced_store_is_presented_by_name(served: Served) -> None:
    served.entries = new_entries()
    put(served.folder / "keys.p12", *served.entries)
    deadline = time.monotonic() + RENEWED_S
    while served.seen("-servername", "second.example") != served.of("second"):
        assert time.monotonic() < deadline, served.node.log_file.read_text()
        time.sleep(0.5)
    for options, alias in CASES.items():
        assert served.seen(*options) == served.of(alias)


@pytest.mark.skipif(find_java() is None, reason="no Java: its keytool makes key stores")
def test_a_store_of_keytool_has_an_entry_for_each_alias(tmp_path: Path) -> None:
    java = find_java()
    assert java is not None
    keytool = java.with_name("keytool")
    entries = new_entries()
    store = tmp_path / "all.p12"
    for each in entries:
        one = tmp_path / f"{each.alias}.p12"
        one.write_bytes(single(each, BestAvailableEncryption(PASSWORD.encode())))
        command: list[str | Path] = [keytool, "-importkeystore", "-srckeystore", one, "-destkeystore", store]
        options = ["-deststoretype", "PKCS12", "-srcstorepass", PASSWORD, "-deststorepass", PASSWORD]
        subprocess.run([*command, *options], check=True, capture_output=True)
    config = BrokerConfig({"listeners": "SSL://:0", **settings(store)})
    found = key_store(texts(config, "SSL"))
    assert [(each.alias, each.key, each.chain) for each in found] == [
        (each.alias, each.key_pem, each.pem) for each in entries
    ]
