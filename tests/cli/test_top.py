"""`kbroker top` shows what the console's API says."""

import json
import re

import pytest

from kbroker.cli.app import run
from tests.peer.kbroker_node import KBroker


def console(node: KBroker) -> str:
    found = re.findall(r"kbroker ready.*? console=(\S+)", node.log_file.read_text())
    return str(found[-1])


@pytest.mark.compat
def test_one_look_shows_the_broker(broker: KBroker, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["top", "--once", "--url", console(broker)]) == 0
    shown = capsys.readouterr().out
    for text in ("ready", "records/s", "Log dirs", "Processes", "network-0", "io-0"):
        assert text in shown


@pytest.mark.compat
def test_one_look_as_json_is_a_sample(broker: KBroker, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["top", "--once", "--json", "--url", console(broker)]) == 0
    assert json.loads(capsys.readouterr().out)["ready"] is True


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/", "http://127.0.0.1:none/", "http://[::1/"])
def test_where_no_broker_is_a_line_says_so(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["top", "--once", "--url", url]) != 0
    assert "127.0.0.1" in (said := capsys.readouterr().err) or "::1" in said
    assert "Traceback" not in said
