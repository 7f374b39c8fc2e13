"""`kbroker status` on one page, beside a broker that is well and one that is not."""

import json
from collections.abc import Iterator

import pytest

from kbroker.cli.app import run
from kbroker.cli.health_checks import OFFLINE
from tests.cli.conftest import Shell
from tests.cli.console_address import console
from tests.cli.page_server import serving
from tests.peer.kbroker_node import KBroker

UNWELL = b"""\
# TYPE kbroker_info gauge
kbroker_info{cluster_id="c",node_id="1",version="9.9"} 1.0
# TYPE kbroker_log_dir_offline gauge
kbroker_log_dir_offline{dir="/with \\"quotes\\""} 1.0
# TYPE kbroker_group_lag_sum gauge
kbroker_group_lag_sum{group="two\xe2\x80\xa8lines"} 7
# TYPE kbroker_process_start_time_seconds gauge
kbroker_process_start_time_seconds{process="acceptor"} 1.7e+09
"""


@pytest.fixture
def unwell() -> Iterator[str]:
    """A broker that is not ready, as its HTTP side shows it."""
    with serving(lambda path: (200, UNWELL) if path == "/metrics" else (503, b"io-0 is starting\n")) as found:
        yield found


def test_problems_are_named_and_the_code_is_1(shell: Shell, unwell: str) -> None:
    first, _, *rows = shell("status", "--url", unwell, code=1).lines
    assert first.startswith("kbroker 9.9  node 1  up ")
    assert first.endswith("2 problems")
    assert rows[0].split(maxsplit=2) == ["ready", "no", "no; io-0 is starting"]
    assert 'no     /with "quotes" is offline, its partitions are not served' in "\n".join(rows)
    assert "1 group with lag: two\\u2028lines 7" in "\n".join(rows)
    found = shell("status", "--url", unwell, "--json", code=1).json
    assert not found["ok"]
    assert [check["problems"] for check in found["checks"] if not check["ok"]] == [
        ["io-0 is starting"],
        [f'/with "quotes" {OFFLINE}'],
    ]


def test_a_missing_broker_is_reported_in_one_line(shell: Shell) -> None:
    assert "127.0.0.1:1" in shell("status", "--url", "http://127.0.0.1:1/", code=3).stderr
    assert "--url" in shell("status", "--url", "http://127.0.0.1:none/", code=2).stderr


def test_a_login_that_is_missing_is_named(shell: Shell) -> None:
    with serving(lambda _: (401, b"Log in\n")) as url:
        assert "KBROKER_HTTP_LOGIN=NAME:PASSWORD" in shell("status", "--url", url, code=1).stderr


@pytest.mark.parametrize(
    ("code", "body", "said"),
    [
        (429, b"too many logins failed, wait a minute\n", "too many logins failed, wait a minute; try again"),
        (503, b"", "Service Unavailable; try again"),
    ],
)
def test_a_broker_that_gives_no_page_now_is_not_taken_for_another_program(
    shell: Shell, code: int, body: bytes, said: str
) -> None:
    with serving(lambda _: (code, body)) as url:
        assert shell("status", "--url", url, code=3).stderr.endswith(f": {said}\n")


@pytest.mark.parametrize(
    "odd",
    [
        b'kbroker_info{node_id="1"} 1',
        b'kbroker_info{version="9.9",node_id="1"} 1\nkbroker_group_lag_sum 7',
        b'kbroker_info{version="9.9",node_id="1"} 1\nkbroker_group_lag_sum{group="g"} NaN',
        (
            b'kbroker_info{version="9.9",node_id="1"} 1\nkbroker_tls_certificate_expiry_timestamp_seconds'
            b'{listener="l"} 1e300'
        ),
        b'kbroker_info{version="9.9',
    ],
    ids=["no version", "no group", "no number", "no date", "cut"],
)
def test_metrics_of_another_program_are_reported_in_one_line(shell: Shell, odd: bytes) -> None:
    with serving(lambda _: (200, odd + b"\n")) as url:
        said = shell("status", "--url", url, code=1).stderr
    assert said.startswith(f"kbroker: {url}: its metrics are not those of this version of kbroker (")
    assert said.count("\n") == 1


def test_a_version_controls_no_terminal(shell: Shell) -> None:
    page = UNWELL.replace(b"9.9", b"9\x1b[2J")
    with serving(lambda path: (200, page) if path == "/metrics" else (200, b"ok")) as url:
        assert shell("status", "--url", url, code=1).lines[0].startswith(r"kbroker 9\x1b[2J  node 1")


def test_a_refusal_without_a_reason_is_not_ready(shell: Shell) -> None:
    with serving(lambda path: (200, UNWELL) if path == "/metrics" else (503, b"")) as url:
        checks = shell("status", "--url", url, "--json", code=1).json["checks"]
    assert checks[0]["problems"] == ["/readyz answers HTTP 503"]


def test_a_port_that_speaks_https_is_named(shell: Shell) -> None:
    with serving(lambda _: (400, b"this port speaks https\r\n")) as url:
        assert "--url https://HOST:PORT/" in shell("status", "--url", url, code=2).stderr


def test_a_password_in_the_url_is_not_shown(shell: Shell, unwell: str) -> None:
    with_login = unwell.replace("://", "://ann:s%40cret@")
    assert "cret" not in shell("status", "--url", with_login, code=1).text
    assert shell("status", "--url", with_login, "--json", code=1).json["console"] == unwell
    assert "cret" not in shell("status", "--url", "http://ann:s%40cret@127.0.0.1:1/", code=3).stderr


@pytest.mark.parametrize("password", ["s/ecret", "s?ecret", "s#ecret", "s://ecret", "[secret", "s@ecret"])
@pytest.mark.parametrize("scheme", ["http://", ""])
def test_a_password_that_makes_the_url_invalid_is_not_shown(shell: Shell, password: str, scheme: str) -> None:
    code = 3 if password == "s@ecret" else 2
    assert "ecret" not in shell("status", "--url", f"{scheme}ann:{password}@127.0.0.1:1/", code=code).stderr


@pytest.mark.compat
def test_a_running_broker_is_well(broker: KBroker, capsys: pytest.CaptureFixture[str]) -> None:
    """But for its disk, which this test does not own."""
    run(["status", "--url", console(broker)])
    assert {line.split()[0] for line in capsys.readouterr().out.splitlines()[2:]} >= {
        "ready",
        "processes",
        "lag",
    }
    code = run(["status", "--json", "--url", console(broker)])
    found = json.loads(capsys.readouterr().out)
    assert found["ok"] == (code == 0)
    assert found["up_s"] > 0
    by_name = {check["check"]: check for check in found["checks"]}
    assert f"{len(broker.children()) + 1} run" in by_name["processes"]["detail"]
    assert [name for name, check in by_name.items() if not check["ok"] and name != "log dir"] == []
