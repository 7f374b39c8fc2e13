"""The client of a refused TLS handshake gets the reason, by TLS's own alert."""

import asyncio
import errno
import select
import shutil
import socket
import ssl
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import uvloop

from kbroker.config.broker import BrokerConfig
from kbroker.config.tls_context import context_and_chains
from kbroker.net.security.tls_alert import AlertContext, send_alert
from kbroker.net.security.tls_relay import RelayEnd, reason_of, relay
from kbroker.net.security.tls_turns import HandshakeTurns
from tests.certificates import certificate, dated

pytestmark = pytest.mark.skipif(
    shutil.which("openssl") is None, reason="no openssl to make certificates with"
)

PREFIX = "listener.name.ssl."


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("tls")
    certificate(made, "broker", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost")
    certificate(made, "alice", "/CN=alice")
    certificate(made, "mallory", "/CN=mallory")
    begins, ended, ends = (
        datetime(year, 1, day, tzinfo=UTC) for year, day in ((2020, 1), (2020, 2), (2040, 1))
    )
    dated(made, "late", begins, ended)
    dated(made, "good-ca", begins, ends, authority=True)
    dated(made, "late-ca", begins, ended, authority=True)
    dated(made, "of-good-ca", begins, ends, issuer="good-ca")
    dated(made, "of-late-ca", begins, ends, issuer="late-ca")
    (made / "broker.pem").write_text((made / "broker.key").read_text() + (made / "broker.crt").read_text())
    trusted = (made / f"{name}.crt" for name in ("alice", "late", "good-ca", "late-ca"))
    (made / "trusted.pem").write_text("".join(each.read_text() for each in trusted))
    return made


def reason(folder: Path, client: ssl.SSLContext, failures: list[str] | None = None, **settings: str) -> str:
    """What a client learns when it shakes hands with a listener of these settings and reads.
    failures: gets what the listener reports."""
    config, _ = BrokerConfig.load(
        {
            "log.dirs": "/d", "listeners": "SSL://:0", "ssl.keystore.type": "PEM", "ssl.truststore.type": "PEM",
            "ssl.keystore.location": str(folder / "broker.pem"), "ssl.truststore.location": str(folder / "trusted.pem"),
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
    )  # fmt: skip
    context = context_and_chains(config, "SSL", AlertContext)[0]
    listener = socket.create_server(("127.0.0.1", 0))
    reported = [] if failures is None else failures

    def shake() -> str:
        plain = socket.create_connection(listener.getsockname(), timeout=60)
        try:
            with client.wrap_socket(plain, server_hostname="localhost") as link:
                link.sendall(b"x" * 3000)
                return link.recv(1).decode()
        except ssl.SSLError as error:
            return error.reason
        except OSError as error:
            return type(error).__name__

    def answer(inner: socket.socket) -> None:
        if inner.recv(1):
            inner.sendall(b"y")
        inner.close()

    async def run() -> str:
        loop = asyncio.get_running_loop()
        shaking = loop.run_in_executor(None, shake)
        served, _ = listener.accept()
        inner, ours = socket.socketpair()
        answering = loop.run_in_executor(None, answer, inner)
        await asyncio.wait_for(
            relay(served, ours, context, lambda _: True, reported.append, HandshakeTurns()), 10
        )
        await answering
        return await shaking

    with listener:
        return uvloop.run(run())


def trusting(folder: Path, name: str | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(folder / "broker.crt"))
    if name is not None:
        context.load_cert_chain(folder / f"{name}.crt", folder / f"{name}.key")
    return context


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("alice", "y"),
        (None, "TLSV13_ALERT_CERTIFICATE_REQUIRED"),
        ("mallory", "TLSV1_ALERT_UNKNOWN_CA"),
        ("late", "SSLV3_ALERT_CERTIFICATE_EXPIRED"),
        ("of-good-ca", "y"),
        ("of-late-ca", "SSLV3_ALERT_CERTIFICATE_EXPIRED"),
    ],
)
def test_a_client_without_a_good_certificate_gets_an_alert(
    folder: Path, name: str | None, expected: str
) -> None:
    assert reason(folder, trusting(folder, name), ssl_client_auth="required") == expected


def test_a_client_is_served_though_no_descriptor_is_free_for_an_alert(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relay that failed here left a traceback in the log for each client."""

    def dup(_: socket.socket) -> socket.socket:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(socket.socket, "dup", dup)
    assert reason(folder, trusting(folder)) == "y"


def context_of(folder: Path) -> ssl.SSLContext:
    """Of a listener without further settings."""
    stores = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(folder / "broker.pem")}
    config, _ = BrokerConfig.load({"log.dirs": "/d", "listeners": "SSL://:0", **stores})
    return context_and_chains(config, "SSL", AlertContext)[0]


def hung_up(inner: socket.socket) -> bool:
    """Wait for the end of a client; whether the broker can no longer read its last requests."""
    poll = select.poll()
    poll.register(inner, select.POLLRDHUP)
    ((_, events),) = poll.poll(10_000)
    if found := bool(events & (select.POLLHUP | select.POLLERR)):
        return found
    inner.sendall(b"y" * 3_000_000)  # answers, which nobody reads any more
    inner.close()
    return found


def test_the_broker_can_read_the_requests_of_a_client_that_has_gone(folder: Path) -> None:
    """A producer with acks=0 closes its connection as soon as it has sent all."""
    context = context_of(folder)
    listener = socket.create_server(("127.0.0.1", 0))

    def send() -> None:
        plain = socket.create_connection(listener.getsockname(), timeout=60)
        with trusting(folder).wrap_socket(plain, server_hostname="localhost") as link:
            link.sendall(b"x" * 3000)
            link.recv(1)  # and what OpenSSL sends after a handshake: else the kernel resets the connection

    async def run() -> bool:
        loop = asyncio.get_running_loop()
        sending = loop.run_in_executor(None, send)
        served, _ = listener.accept()
        inner, ours = socket.socketpair()
        inner.sendall(b"y")
        waiting = loop.run_in_executor(None, hung_up, inner)
        await asyncio.wait_for(relay(served, ours, context, lambda _: True, print, HandshakeTurns()), 10)
        await sending
        return await waiting

    with listener:
        assert not uvloop.run(run())


def test_a_relay_of_a_client_that_is_refused_later_ends_with_its_sockets(folder: Path) -> None:
    """The acceptor counts their descriptors until then."""
    context = context_of(folder)

    listener, leave = socket.create_server(("127.0.0.1", 0)), threading.Event()

    def stay() -> None:
        plain = socket.create_connection(listener.getsockname(), timeout=60)
        with trusting(folder).wrap_socket(plain, server_hostname="localhost"):
            leave.wait(60)  # it does not read that the broker has ended

    async def run() -> bool:
        staying = asyncio.get_running_loop().run_in_executor(None, stay)
        served, _ = listener.accept()
        _, ours = socket.socketpair()
        work = relay(served, ours, context, lambda _: False, print, HandshakeTurns())
        relaying = asyncio.get_running_loop().create_task(work)
        done, _ = await asyncio.wait((relaying,), timeout=1)
        leave.set()
        await asyncio.wait_for(relaying, 10)
        await staying
        return bool(done)

    with listener:
        assert not uvloop.run(run())


def old_version(context: ssl.SSLContext) -> None:
    context.maximum_version = ssl.TLSVersion.TLSv1_2


def weak_cipher(context: ssl.SSLContext) -> None:
    old_version(context)
    context.set_ciphers("ECDHE-ECDSA-AES128-SHA:@SECLEVEL=0")


@pytest.mark.parametrize(
    ("change", "protocols", "expected"),
    [
        (old_version, "TLSv1.2,TLSv1.3", "y"),
        (old_version, "TLSv1.3", "TLSV1_ALERT_PROTOCOL_VERSION"),
        (weak_cipher, "TLSv1.2,TLSv1.3", "SSLV3_ALERT_HANDSHAKE_FAILURE"),
    ],
)
def test_a_client_of_an_old_version_or_a_weak_cipher_gets_an_alert(
    folder: Path, change: Callable[[ssl.SSLContext], None], protocols: str, expected: str
) -> None:
    client = trusting(folder)
    change(client)
    assert reason(folder, client, ssl_enabled_protocols=protocols) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("alice", []),
        (None, ["TLS handshake failed: peer did not return a certificate"]),
        ("mallory", ["TLS handshake failed: self-signed certificate"]),
        ("late", ["TLS handshake failed: certificate has expired"]),
        ("of-good-ca", []),
        ("of-late-ca", ["TLS handshake failed: certificate has expired"]),
    ],
)
def test_a_refused_handshake_is_reported_with_its_reason(
    folder: Path, name: str | None, expected: list[str]
) -> None:
    failures: list[str] = []
    reason(folder, trusting(folder, name), failures, ssl_client_auth="required")
    assert failures == expected


def test_a_client_that_does_not_trust_the_broker_is_reported(folder: Path) -> None:
    failures: list[str] = []
    reason(folder, ssl.create_default_context(), failures)
    assert failures == ["TLS handshake failed: tlsv1 alert unknown ca"]


def test_garbage_is_reported_and_a_look_at_the_port_is_not(folder: Path) -> None:
    assert _spoken(folder, b"GET / HTTP/1.1\r\n\r\n") == ["TLS handshake failed: http request"]
    assert _spoken(folder, b"") == []


def _spoken(folder: Path, text: bytes) -> list[str]:
    """What a listener reports of a client that sends this and leaves."""
    failures: list[str] = []

    async def run() -> None:
        client, served = socket.socketpair()
        inner, ours = socket.socketpair()
        client.sendall(text)
        client.close()
        with inner:
            context = context_of(folder)
            await asyncio.wait_for(
                relay(served, ours, context, lambda _: True, failures.append, HandshakeTurns()), 10
            )

    uvloop.run(run())
    return failures


class Transport:
    """The socket of one side of a relay, that notes its calls. halves: whether it can be closed by
    halves, as the broker's side."""

    def __init__(self, halves: bool = False) -> None:
        self.halves = halves
        self.calls: list[str] = []
        self.written = b""
        self.closing = False

    def write(self, data: bytes) -> None:
        self.written += data

    def pause_reading(self) -> None:
        self.calls.append("pause")

    def resume_reading(self) -> None:
        self.calls.append("resume")

    def close(self) -> None:
        self.calls.append("close")

    def is_closing(self) -> bool:
        return self.closing

    def can_write_eof(self) -> bool:
        return self.halves

    def write_eof(self) -> None:
        self.calls.append("eof")


def relayed() -> tuple[RelayEnd, RelayEnd, Any, Any]:
    """Both sides, the second one not connected yet, and their transports."""
    one, two = RelayEnd(), RelayEnd()
    one.other, two.other = two, one
    first: Any = Transport()
    one.connection_made(first)
    return one, two, first, Transport()


def test_bytes_that_come_early_are_the_first_ones_of_the_other_side() -> None:
    one, two, _, second = relayed()
    one.data_received(b"early ")
    one.data_received(b"too ")
    two.connection_made(second)
    one.data_received(b"later")
    assert second.written == b"early too later"
    two.connection_lost(None)
    one.data_received(b"lost")
    assert (second.written, one._early) == (b"early too later", b"")


def test_a_side_is_read_as_fast_as_the_other_is_written() -> None:
    one, two, first, second = relayed()
    one.pause_writing()  # before the other side is connected
    one.resume_writing()
    two.connection_made(second)
    two.pause_writing()
    two.resume_writing()
    assert (first.calls, second.calls) == (["pause", "resume"], [])
    first.closing = True
    two.resume_writing()
    assert first.calls == ["pause", "resume"]


def test_the_end_of_one_side_ends_the_other() -> None:
    one, two, first, second = relayed()
    two.connection_made(second)
    one.connection_lost(None)
    assert (one.ended.is_set(), two.ended.is_set(), one.transport) == (True, False, None)
    assert (first.calls, second.calls) == ([], ["close"])
    two.connection_lost(None)
    assert (two.ended.is_set(), first.calls) == (True, [])


@pytest.mark.parametrize(
    ("error", "closing", "calls"),
    [
        (None, False, ["resume", "eof"]),
        (ConnectionResetError(), False, ["close"]),
        (None, True, ["close"]),
    ],
)
def test_a_regular_end_leaves_the_other_side_readable(
    error: Exception | None, closing: bool, calls: list[str]
) -> None:
    one, two, _, _ = relayed()
    second: Any = Transport(halves=True)
    two.connection_made(second)
    second.closing = closing
    one.connection_lost(error)
    assert second.calls == calls


def test_the_reason_of_a_failure_without_a_text_of_openssl_is_its_own() -> None:
    assert reason_of(TimeoutError("too long")) == "TLS handshake failed: too long"


@pytest.mark.parametrize("alert", [b"", b"alert"])
def test_an_alert_is_sent_and_read_before_the_connection_ends(alert: bytes) -> None:
    async def run() -> None:
        client, ours = socket.socketpair()
        client.setblocking(False)
        error: Any = OSError("refused")
        error.alert = alert
        sending = asyncio.ensure_future(send_alert(ours, error))
        for _ in range(3):
            await asyncio.sleep(0)
        assert sending.done() == (not alert), "it waits for the client"
        if alert:
            assert (client.recv(100), client.recv(100)) == (alert, b"")
        else:
            with pytest.raises(BlockingIOError):
                client.recv(100)
        client.close()
        await asyncio.wait_for(sending, 60)
        ours.close()

    asyncio.run(run())
