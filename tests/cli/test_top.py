"""`kbroker top` shows what the console's API says."""

import io
import json
import socket

import pytest
from rich.console import Console

from kbroker.cli import top
from kbroker.cli.app import run
from kbroker.cli.console_link import ConsoleLink
from kbroker.cli.failures import Unreachable
from kbroker.cli.top import next_screen, screen
from tests.cli.console_address import console
from tests.cli.page_server import serving
from tests.peer.kbroker_node import KBroker


@pytest.mark.compat
def test_one_look_shows_the_broker(broker: KBroker, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["top", "--once", "--url", console(broker)]) == 0
    shown = capsys.readouterr().out
    for text in ("ready", "records/s", "Log dirs", "Processes", "network-0", "io-0", "Memory", "Network"):
        assert text in shown


@pytest.mark.compat
def test_one_look_as_json_is_a_sample(broker: KBroker, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["top", "--once", "--json", "--url", console(broker)]) == 0
    assert json.loads(capsys.readouterr().out)["ready"] is True


@pytest.mark.parametrize("sample", [{}, 7, {"ready": True, "in_bytes": "x"}], ids=["empty", "number", "text"])
def test_a_sample_of_another_program_is_reported_in_one_line(
    sample: object, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(lambda _: (200, json.dumps({"sample": sample}).encode())) as url:
        assert run(["top", "--once", "--url", url]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"kbroker: {url}: its answer is not that of this version of kbroker (")
    assert said.count("\n") == 1


def stages(*names: str) -> dict[str, dict[str, float]]:
    return {name: {"p50_ms": 1.23, "p99_ms": 123.45, "count": 1_234_567} for name in names}


BUSY = {
    "ready": True,
    "problems": [],
    "degraded": [],
    "in_bytes": 123e6,
    "in_records": 1e6,
    "out_bytes": 1e8,
    "cold_share": 0.123,
    "requests": 1e5,
    "errors": 0,
    "partition_count": 1104,
    "topic_count": 1004,
    "connections": 120,
    "lag": 1_234_567,
    "deaths": 0,
    "stages": {
        "produce": stages("total", "queue", "append", "flush", "respond"),
        "fetch": stages("total", "queue", "local", "purgatory", "cold_read", "send"),
    },
    "top_topics": [{"topic": "a-rather-long-name.orders.eu-west", "in_bytes": 1e6, "out_bytes": 2e6}],
    "group_lag": {"billing": 12345, "audit": 1},
    "disks": [{"name": "vda", "read_bytes": 1e6, "write_bytes": 1e8, "busy": 0.5, "used": None}],
    "log_dirs": [
        {
            "path": "/var/lib/kbroker/data/with/a/long/path",
            "online": True,
            "free_bytes": 1e11,
            "full_in_s": 7200,
        }
    ],
    "memory": {"total": 64e9, "page_cache": 48e9, "dirty": 1.5e9, "writeback": 0.5e9},
    "nics": [
        {"name": "eth0", "in_bytes": 500e6, "out_bytes": 250e6, "speed_bytes": 1_250_000_000},
        {"name": "docker0", "in_bytes": 0, "out_bytes": 0, "speed_bytes": None},
        {"name": "lo", "in_bytes": 3e6, "out_bytes": 3e6, "speed_bytes": None},
    ],
    "processes": [
        {"name": name, "cpu": 0.5, "memory_bytes": 1e8}
        for name in ("network-0", "control", "io-0", "http", "cleaner", "acceptor")
    ],
}


@pytest.mark.parametrize(("columns", "lines"), [(80, 24), (200, 24), (60, 40)])
def test_a_screen_fits_its_terminal(columns: int, lines: int) -> None:
    terminal = Console(width=columns, record=True, file=io.StringIO())
    terminal.print(screen({"version": "1", "bootstrap": ["127.0.0.1:9092"], "sample": BUSY}, columns))
    shown = terminal.export_text().splitlines()
    assert len(shown) <= lines
    assert max(map(len, shown)) <= columns
    for text in (
        "fetch purgatory",
        "1,234,567",
        "network-0",
        "acceptor",
        "vda",
        "2 h",
        "billing",
        "eth0",
        "48.0 GB",
    ):
        assert any(text in line for line in shown), text


def test_a_terminal_that_cannot_be_cleared_gets_one_screen_after_the_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # a terminal, for rich
    monkeypatch.setenv("TERM", "dumb")
    left = iter([BUSY, BUSY])

    def overview(_: object) -> object:
        sample = next(left, None)
        if sample is None:
            raise KeyboardInterrupt
        return {"version": "1", "bootstrap": ["127.0.0.1:9092"], "sample": sample}

    monkeypatch.setattr(top, "overview", overview)
    top.top(interval=0.0)
    shown = capsys.readouterr().out
    assert shown.count("kbroker 1  127.0.0.1:9092") == 2
    assert "\x1b" not in shown


def test_memory_and_interfaces_are_shown() -> None:
    terminal = Console(width=120, record=True, file=io.StringIO())
    terminal.print(screen({"version": "1", "bootstrap": ["127.0.0.1:9092"], "sample": BUSY}, 120))
    rows = [line.split() for line in terminal.export_text().splitlines()]
    assert any(row[-6:] == ["48.0", "GB", "64.0", "GB", "2.0", "GB"] for row in rows)
    assert any(row[-6:] == ["eth0", "500", "MB/s", "250", "MB/s", "40%"] for row in rows)
    assert any(row[-6:] == ["lo", "3.0", "MB/s", "3.0", "MB/s", "-"] for row in rows)
    assert not any("docker0" in row for row in rows)


def test_disks_are_shown_against_their_measured_speed() -> None:
    terminal = Console(width=120, record=True, file=io.StringIO())
    sample = BUSY | {
        "disks": [{"name": "vda", "read_bytes": 1e6, "write_bytes": 1e8, "busy": 0.5, "used": 0.17}]
    }
    terminal.print(screen({"version": "1", "bootstrap": ["127.0.0.1:9092"], "sample": sample}, 120))
    rows = [line.split() for line in terminal.export_text().splitlines()]
    assert any(row[-5:] == ["DEVICE", "READ", "WRITE", "BUSY", "USED"] for row in rows)
    assert any(row[-2:] == ["50%", "17%"] for row in rows)


def test_a_host_without_traffic_shows_its_first_interface() -> None:
    quiet = [{"name": name, "in_bytes": 0, "out_bytes": 0, "speed_bytes": None} for name in ("eth0", "lo")]
    terminal = Console(width=120, record=True, file=io.StringIO())
    sample = BUSY | {"nics": quiet, "memory": {}}
    terminal.print(screen({"version": "1", "bootstrap": ["127.0.0.1:9092"], "sample": sample}, 120))
    shown = terminal.export_text()
    assert "eth0" in shown
    assert "PAGE CACHE" not in shown


@pytest.mark.parametrize(
    ("code", "body"),
    [(200, b"[]"), (200, b"{}"), (404, b"[1]"), (200, b"<html>"), (200, b"[" * 50_000)],
    ids=str,
)
def test_another_server_is_no_console(code: int, body: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(lambda _: (code, body)) as url:
        assert run(["top", "--once", "--url", url]) == 1
    assert capsys.readouterr().err.endswith("/: this is not the console of a kbroker\n")


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/", "http://127.0.0.1:none/", "http://[::1/"])
def test_a_missing_broker_is_reported_in_one_line(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["top", "--once", "--url", url]) != 0
    assert "127.0.0.1" in (reported := capsys.readouterr().err) or "::1" in reported
    assert "Traceback" not in reported


def test_a_broker_that_restarts_does_not_end_the_display() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
    text = io.StringIO()
    Console(file=text, width=200).print(next_screen(ConsoleLink(url), 200))
    shown = text.getvalue()
    assert f"{url}: Connection refused; is the broker running" in shown
    assert "Trying again." in shown


STARTS = 503, b'{"error": "unavailable", "message": "it starts"}'
"""A console that answers, of a broker that does not yet."""


@pytest.mark.parametrize("words", [[], ["--once"], ["--json"], ["--once", "--json"]])
def test_a_broker_that_starts_ends_the_command_as_one_that_is_away(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(lambda _: STARTS) as url:
        assert run(["top", "--url", url, *words]) == 3
    assert capsys.readouterr().err.endswith(f"{url}: it starts\n")


def test_a_connection_too_many_is_not_taken_for_another_server(capsys: pytest.CaptureFixture[str]) -> None:
    """Its answer has no text; `top` tries again."""
    with serving(lambda _: (503, b"")) as url:
        assert run(["top", "--once", "--url", url]) == 3
    assert capsys.readouterr().err.endswith(f"{url}: Service Unavailable\n")


LOCKED = 429, b'{"error": "attempts", "message": "too many logins failed, wait a minute"}'
"""The console's answer to a login, for a minute after failed ones from the same address."""


def test_a_login_too_many_does_not_end_the_display(capsys: pytest.CaptureFixture[str]) -> None:
    text = io.StringIO()
    with serving(lambda _: LOCKED) as url:
        Console(file=text, width=200).print(next_screen(ConsoleLink(url), 200))
        assert run(["top", "--once", "--url", url]) == 3
    assert "too many logins failed, wait a minute\n\nTrying again." in text.getvalue()
    assert capsys.readouterr().err.endswith(f"{url}: too many logins failed, wait a minute\n")


def test_a_broker_that_restarts_does_not_end_the_lines_of_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    away = Unreachable("away")
    turns = [{"sample": 1}, away, away, {"sample": 2}, away, {"sample": 3}, KeyboardInterrupt()]

    def overview(_link: ConsoleLink) -> object:
        found = turns.pop(0)
        if isinstance(found, BaseException):
            raise found
        return found

    monkeypatch.setattr(top, "overview", overview)
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    assert run(["top", "--json"]) == 0
    shown = capsys.readouterr()
    assert shown.out.split() == ["1", "2", "3"]
    assert shown.err == "away; trying again\n" * 2


def test_a_pipe_gets_each_screen_as_it_comes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = []

    def overview(_link: ConsoleLink) -> object:
        printed.append(capsys.readouterr().out)
        if len(printed) > 2:
            raise KeyboardInterrupt
        return {"version": "1", "bootstrap": [f"localhost:{len(printed)}"], "sample": BUSY}

    monkeypatch.setattr(top, "overview", overview)
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    assert run(["top"]) == 0
    assert [text.partition("  ready")[0] for text in printed[1:]] == [
        "kbroker 1  localhost:1",
        "kbroker 1  localhost:2",
    ]


def shown(sample: dict[str, object], columns: int = 120) -> str:
    terminal = Console(width=columns, record=True, file=io.StringIO())
    terminal.print(screen({"version": "1", "bootstrap": ["localhost:9092"], "sample": sample}, columns))
    return terminal.export_text()


def test_troubles_have_a_line_each() -> None:
    lost = {"path": "/lost", "online": False, "free_bytes": None, "full_in_s": None}
    full = {"path": "/full", "online": True, "free_bytes": 0, "full_in_s": 0}
    filling = {"path": "/filling", "online": True, "free_bytes": 1e9, "full_in_s": 5400}
    sample = BUSY | {
        "ready": False,
        "problems": ["io-0 is starting"],
        "degraded": ["2 partitions are under-replicated"],
        "log_dirs": [lost, full, filling],
    }
    lines = [line.strip() for line in shown(sample).splitlines()]
    assert lines[0].endswith("not ready")
    assert lines[3:6] == [
        "! log dir /lost is offline",
        "! io-0 is starting",
        "! 2 partitions are under-replicated",
    ]
    assert any(line.split()[-3:] == ["0", "B", "full"] for line in lines)
    assert any(line.endswith("1 h 30 min") for line in lines)


def test_a_broker_without_troubles_has_no_line_of_them() -> None:
    assert "!" not in shown(BUSY)


def test_a_name_is_neither_markup_nor_a_command_to_the_terminal() -> None:
    """Clients choose the names of groups."""
    names = ("[/x]", "[red]a[/red]", ":smile:", "\x1b[2J")
    text = shown(BUSY | {"group_lag": dict.fromkeys(names, 1)})
    for name in (*names[:-1], r"\x1b[2J"):
        assert name in text


def test_the_cpu_time_of_polling_is_shown_apart() -> None:
    terminal = Console(width=120, record=True, file=io.StringIO())
    processes = [{"name": "io-0", "cpu": 0.98, "polling": 0.9, "memory_bytes": 1e8}]
    sample = BUSY | {"processes": processes}
    terminal.print(screen({"version": "1", "bootstrap": ["127.0.0.1:9092"], "sample": sample}, 120))
    assert "98%, 90% polling" in terminal.export_text()
