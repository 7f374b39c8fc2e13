"""The http port over TLS: the same answers, no plain byte, no handshake that holds up others."""

import http.client
import shutil
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from kbroker.config.broker import BrokerConfig
from kbroker.config.tls_context import TlsError
from kbroker.http import tls as module
from kbroker.http.connection_slots import CONNECTIONS
from kbroker.http.server import MetricsServer
from kbroker.http.tls import HttpTls, cut, shake_hands
from kbroker.supervisor.unsupported import unsupported
from tests import key_stores
from tests.http.scene import Scene
from tests.http.tls_store import connection, put, settings, tls_of, trusting
from tests.key_stores import made
from tests.tls_client import Client

pytestmark = pytest.mark.skipif(
    shutil.which("openssl") is None, reason="no openssl to make certificates with"
)


class Served:
    """A server with TLS over a scene."""

    def __init__(self, folder: Path) -> None:
        self.store = put(folder / "web.pem")
        self.tls = tls_of(self.store)
        scene = Scene(folder / "scene")
        listener = socket.create_server(("127.0.0.1", 0))
        self.port = listener.getsockname()[1]
        self.server = MetricsServer(listener, scene.collector, scene.health, tls=self.tls)
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def status(self, path: str) -> int:
        link = connection(self.port, self.store)
        link.request("GET", path)
        answer = link.getresponse()
        answer.read()
        link.close()
        return answer.status

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    (tmp_path / "scene").mkdir()
    made = Served(tmp_path)
    yield made
    made.close()


def test_one_connection_serves_many_requests(served: Served) -> None:
    link = connection(served.port, served.store)
    link.connect()
    own = link.sock.getsockname()
    statuses = []
    for path in ("/healthz", "/metrics", "/none"):
        link.request("GET", path)
        answer = link.getresponse()
        statuses.append(answer.status)
        answer.read()
    assert statuses == [200, 200, 404]
    assert link.sock.getsockname() == own
    link.close()


def test_a_client_that_speaks_plain_http_learns_why_it_fails(served: Served) -> None:
    link = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)
    link.request("GET", "/metrics")
    answer = link.getresponse()
    assert (answer.status, answer.read()) == (400, b"this port speaks https\r\n")
    link.close()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the versions, by Python
def test_old_versions_of_tls_are_refused(served: Served) -> None:
    context = trusting(served.store)
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = ssl.TLSVersion.TLSv1
    context.maximum_version = ssl.TLSVersion.TLSv1_1
    with (
        socket.create_connection(("127.0.0.1", served.port), timeout=60) as plain,
        pytest.raises(ssl.SSLError),
    ):
        context.wrap_socket(plain, server_hostname="localhost")


def test_clients_that_never_shake_hands_exclude_no_probe(served: Served) -> None:
    silent = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(2 * CONNECTIONS)]
    assert served.status("/healthz") == 200
    for each in silent:
        each.close()


def test_a_connection_that_is_refused_costs_no_handshake(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that accepts connections would make it."""
    monkeypatch.setattr(served.server.slots, "take", lambda *_: None)
    sent = ssl.MemoryBIO()
    client = trusting(served.store).wrap_bio(ssl.MemoryBIO(), sent, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    listener = served.server.socket
    served.server.shutdown()
    with socket.create_connection(listener.getsockname(), timeout=60) as link:
        link.sendall(sent.read())
        request, address = served.server.get_request()
        served.server.process_request(request, address)
        received = b""
        with suppress(ConnectionResetError):
            received = link.recv(1)
        assert received == b""


def test_a_handshake_ends_in_time(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HANDSHAKE_S", 0.05)
    with socket.create_connection(("127.0.0.1", served.port), timeout=60) as silent:
        assert silent.recv(1) == b""


def test_a_connection_ends_with_an_alert_not_with_a_cut(served: Served) -> None:
    context = trusting(served.store)
    with socket.create_connection(("127.0.0.1", served.port), timeout=60) as plain:
        link = context.wrap_socket(plain, server_hostname="localhost", suppress_ragged_eofs=False)
        link.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        received = b""
        while data := link.recv(4096):
            received += data
        assert received.endswith(b"ok\n")
        link.close()


def test_a_connection_that_gives_way_sends_nothing_in_clear() -> None:
    ours, theirs = socket.socketpair()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    wrapped = context.wrap_socket(ours, server_side=True, do_handshake_on_connect=False)
    encryption = wrapped._sslobj  # type: ignore[attr-defined]
    cut(wrapped)
    assert wrapped._sslobj is encryption  # type: ignore[attr-defined]
    assert theirs.recv(1) == b""
    wrapped.close()
    theirs.close()


def test_a_renewed_certificate_is_used_and_one_for_other_names_is_not(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    before = trusting(served.store)
    put(served.store)
    served.tls.reload_changed()
    assert served.status("/healthz") == 200
    with (
        socket.create_connection(("127.0.0.1", served.port), timeout=60) as plain,
        pytest.raises(ssl.SSLError),
    ):
        before.wrap_socket(plain, server_hostname="localhost")
    good = trusting(served.store)
    put(served.store, "/CN=another")
    served.tls.reload_changed()
    with socket.create_connection(("127.0.0.1", served.port), timeout=60) as plain:
        good.wrap_socket(plain, server_hostname="localhost").close()
    served.store.write_text("broken")
    served.tls.reload_changed()
    with socket.create_connection(("127.0.0.1", served.port), timeout=60) as plain:
        good.wrap_socket(plain, server_hostname="localhost").close()
    assert caplog.text.count("the http port keeps its key store") == 2


def test_a_client_gets_the_certificate_of_the_name_that_it_sends(tmp_path: Path) -> None:
    entries = [made("first", "first.example"), made("second", "second.example")]
    keys = key_stores.settings(key_stores.put(tmp_path / "web.p12", *entries))
    own = {f"listener.name.web.{name}": value for name, value in keys.items()}
    tls = HttpTls.of(BrokerConfig.load({"log.dirs": "/d", "kbroker.http.ssl.listener": "web", **own})[0])
    assert tls is not None
    for name, entry in (("second.example", entries[1]), ("other.example", entries[0])):
        ours, theirs = socket.socketpair()
        theirs.settimeout(60)
        served = tls.wrap(ours)
        shaking = threading.Thread(target=shake_hands, args=(served,))
        shaking.start()
        with Client().context.wrap_socket(theirs, server_hostname=name) as link:
            assert link.getpeercert(True) == entry.chain[0].public_bytes(Encoding.DER)
        shaking.join()
        served.close()


def test_no_client_is_asked_for_a_certificate(tmp_path: Path) -> None:
    store = put(tmp_path / "web.pem")
    made = tls_of(store, **{"ssl.client.auth": "required"})
    assert made._current.context.verify_mode is ssl.CERT_NONE


def test_without_the_setting_there_is_no_tls() -> None:
    assert HttpTls.of(BrokerConfig.load({"log.dirs": "/d"})[0]) is None


def test_a_broker_does_not_start_with_a_store_that_cannot_be_used(tmp_path: Path) -> None:
    config, _ = BrokerConfig.load({"log.dirs": "/d", **settings(tmp_path / "none.pem")})
    (problem,) = unsupported(config)
    assert problem.startswith("kbroker.http.ssl.listener=web: ")
    assert str(tmp_path / "none.pem") in problem
    with pytest.raises(TlsError):
        HttpTls.of(config)
