import http.server
import re
import shutil
import socket
import ssl
import threading
from pathlib import Path

import pytest

import tuning
from kbroker.metrics.catalog import CATALOG
from tests.certificates import certificate
from tests.foreign_listener import UID, listening, needs_root
from tuning.live import SERIES, Live, NoMetrics, parse, scrape

PAGE = """\
# TYPE kbroker_requests_total counter
kbroker_requests_total{api="Produce",version="9"} 10
kbroker_requests_total{api="Produce",version="8"} 5
kbroker_requests_total{api="Fetch",version="9"} 7
# TYPE kbroker_info gauge
kbroker_info{version="0.1.0"} 1
# TYPE kbroker_flush_seconds histogram
kbroker_flush_seconds_bucket{le="0.1"} 98
kbroker_flush_seconds_bucket{le="0.2"} 100
kbroker_flush_seconds_bucket{le="+Inf"} 100
kbroker_flush_seconds_count 100
kbroker_flush_seconds_sum 4
"""


def test_series_are_summed_by_labels() -> None:
    live = parse(PAGE)
    assert live.total("kbroker_requests_total") == 22
    assert live.total("kbroker_requests_total", api="Produce") == 15
    assert live.most("kbroker_requests_total", api="Produce") == 10
    assert live.most("no_such") is None


def test_a_value_without_a_limit_has_no_earlier_one() -> None:
    """A log dir that will never be full, now and before."""
    never = parse('kbroker_info{version="1"} 1\nkbroker_log_dir_full_seconds{dir="/d"} +Inf\n')
    found = never.since(never, 3.0).values("kbroker_log_dir_full_seconds", dir="/d")
    assert list(found.values()) == [float("inf")]


def test_a_quantile_is_the_bound_of_its_bucket() -> None:
    live = parse(PAGE)
    assert live.quantile("kbroker_flush_seconds", 0.5) == 0.1
    assert live.quantile("kbroker_flush_seconds", 0.99) == 0.2
    assert live.quantile("no_such", 0.5) is None


@pytest.mark.parametrize("text", ["up 1\n", "not metrics at all {{{\n"])
def test_a_page_that_is_not_kbrokers_is_refused(text: str) -> None:
    with pytest.raises(NoMetrics):
        parse(text)


def test_a_page_that_is_not_kbrokers_is_named() -> None:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<html>")

        def log_message(self, *_: object) -> None:
            """Quiet."""

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        address = f"http://127.0.0.1:{server.server_port}/other"
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        with pytest.raises(NoMetrics, match=re.escape(f"{address}: ")):
            scrape(address)
        thread.join()


def test_an_address_that_does_not_answer_is_named() -> None:
    with pytest.raises(NoMetrics, match=r"127\.0\.0\.1:1"):
        scrape("127.0.0.1:1")
    with pytest.raises(NoMetrics, match="neither"):
        scrape("file:///etc/passwd")


@pytest.mark.parametrize(
    "given", ["{}", "{}/", "http://{}", "http://{}/", "http://ann:a@{}/", "{}/metrics", "http://{}/metrics"]
)
def test_host_and_port_are_enough_and_so_is_the_url_of_the_console(given: str) -> None:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/metrics" else 404)
            self.end_headers()
            self.wfile.write(PAGE.encode())

        def log_message(self, *_: object) -> None:
            """Quiet."""

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        live = scrape(given.format(f"127.0.0.1:{server.server_port}"))
        thread.join()
    assert live.total("kbroker_info") == 1


@pytest.mark.parametrize("in_url", [True, False])
def test_a_login_is_sent_and_never_shown(in_url: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str | None] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.headers.get("Authorization"))
            self.send_response(401)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Quiet."""

    if not in_url:
        monkeypatch.setenv("KBROKER_HTTP_LOGIN", "ann:s@cret")
    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        with pytest.raises(NoMetrics) as refused:
            scrape(f"http://{'ann:s%40cret@' if in_url else ''}127.0.0.1:{server.server_port}/metrics")
        thread.join()
    assert seen == ["Basic YW5uOnNAY3JldA=="]
    assert "cret" not in str(refused.value)


@pytest.mark.parametrize(
    "url", ["HTTP://ann:secret@h:1/", "htps://ann:secret@h/", "http://ann:se/cret@127.0.0.1:1/"]
)
def test_a_login_in_a_url_that_cannot_be_used_is_not_shown(url: str) -> None:
    with pytest.raises(NoMetrics) as refused:
        scrape(url)
    assert "cret" not in str(refused.value)


def test_a_login_is_not_sent_on_to_the_target_of_a_redirect() -> None:
    seen: list[tuple[str, str | None]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append((self.path, self.headers.get("Authorization")))
            self.send_response(302 if self.path == "/metrics" else 404)
            self.send_header("Location", "/other")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Quiet."""

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        with pytest.raises(NoMetrics):
            scrape(f"http://ann:secret@127.0.0.1:{server.server_port}/metrics")
        server.shutdown()
        thread.join()
    assert seen == [("/metrics", "Basic YW5uOnNlY3JldA=="), ("/other", None)]


def test_the_series_of_the_checks_are_those_that_they_read() -> None:
    """The console asks for these alone: one that is missing there would be a check that sees
    nothing."""
    folder = Path(tuning.__file__).parent
    files = [folder / "gather.py", folder / "situation.py", *(folder / "broker").glob("*.py")]
    metrics = {metric.name for metric in CATALOG}
    words = {word for file in files for word in re.findall(r"\bkbroker_[a-z_]+", file.read_text())}
    assert words & metrics <= set(SERIES) <= metrics
    assert len(SERIES) == len(set(SERIES))


@pytest.mark.parametrize(
    "url", ["http://[bad", "localhost:port", "http://local host:1/", "http://\x00/", "x" * 70_000]
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(NoMetrics):
        scrape(url)


@pytest.mark.parametrize(
    "answer", [b"\x1b[31mhello\r\nthere", b"\0\0\0\x1a\0\0\0\1", b"HTTP/1.1 200 OK\r\n\r\n\xff\xfe", b""]
)
def test_a_port_of_another_protocol_is_refused(answer: bytes) -> None:
    """Such as that of the broker's clients."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(NoMetrics, match=r"127\.0\.0\.1") as refused:
            scrape(f"127.0.0.1:{server.getsockname()[1]}")
        assert str(refused.value).isprintable()
        thread.join()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl to make certificates with")
def test_an_unknown_certificate_names_the_variable_that_trusts_it(tmp_path: Path) -> None:
    certificate(tmp_path, "web", "/CN=localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "web.crt", tmp_path / "web.key")
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        with pytest.raises(NoMetrics, match=r"self.signed certificate; SSL_CERT_FILE=FILE names"):
            scrape(f"https://127.0.0.1:{server.server_port}/metrics")
        thread.join()


def test_totals_are_those_since_an_earlier_reading_and_gauges_stay() -> None:
    def page(total: int, gauge: int) -> str:
        return (
            'kbroker_info{version="1"} 1\n'
            f'kbroker_requests_total{{api="Fetch"}} {total}\n'
            f"kbroker_connections {gauge}\n"
        )

    found = parse(page(17, 4)).since(parse(page(10, 9)), 3.0)
    assert (found.total("kbroker_requests_total"), found.total("kbroker_connections")) == (7, 4)
    assert found.seconds == 3.0
    restarted = parse(page(5, 4)).since(parse(page(10, 9)), 3.0)
    assert restarted.total("kbroker_requests_total") == 5
    quiet = parse(page(10, 4)).since(parse(page(10, 9)), 3.0)
    assert quiet.total("kbroker_requests_total") == 0
    new = parse(page(8, 4)).since(Live(), 3.0)
    assert new.total("kbroker_requests_total") == 8


@pytest.mark.parametrize(("share", "bound"), [(0.0, 0.1), (0.98, 0.1), (0.981, 0.2), (1.0, 0.2)])
def test_a_bucket_that_reaches_the_share_is_its_quantile(share: float, bound: float) -> None:
    assert parse(PAGE).quantile("kbroker_flush_seconds", share) == bound


@needs_root
def test_a_login_is_not_sent_to_another_user_who_listens_there() -> None:
    with listening() as (port, received):
        with pytest.raises(NoMetrics, match=f"127.0.0.1:{port}/metrics: user {UID} listens"):
            scrape(f"http://ann:secret@127.0.0.1:{port}/metrics")
        assert received() == b""
