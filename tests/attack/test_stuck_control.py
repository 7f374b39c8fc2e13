"""A control process that does not move any more: restarted with its stack in the log, and no reason
not to stop."""

import re
import signal
import socket
import time
import urllib.request
from pathlib import Path

import pytest

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.frame import encode_request
from kbroker.protocol.messages.list_groups import ListGroupsRequest
from tests.compat.raw import SocketPeer
from tests.conftest import BrokerFactory
from tests.peer.eventually import eventually
from tests.peer.kbroker_node import KBroker

NOTICED_S = 120  # for a test that hangs; the log line says after how long it was noticed
STOPPED_S = 60
MORE_S = 2


def hang(broker: KBroker) -> socket.socket:
    """Control hangs in the middle of an answer."""
    Path(broker.environment["KBROKER_FAILPOINT"]).write_text(f"answering-{int(ApiKey.LIST_GROUPS)} 1 hang")
    link = socket.create_connection(("127.0.0.1", int(broker.bootstrap.rpartition(":")[2])))
    link.sendall(encode_request(ApiKey.LIST_GROUPS, 4, 1, "hangs", ListGroupsRequest()))
    deadline = time.monotonic() + 60
    while Path(broker.environment["KBROKER_FAILPOINT"]).exists():
        assert time.monotonic() < deadline, "control did not come there"
        time.sleep(0.02)
    return link


@pytest.fixture
def broker(broker_factory: BrokerFactory, tmp_path: Path) -> KBroker:
    made = broker_factory(start=False)
    made.environment["KBROKER_FAILPOINT"] = str(tmp_path / "point")
    made.start()
    return made


@pytest.mark.slow
def test_control_that_hangs_is_restarted(broker: KBroker) -> None:
    with hang(broker):
        began = time.monotonic()
        while "control 0 died" not in broker.logs():
            assert time.monotonic() - began < NOTICED_S, broker.logs()
            time.sleep(0.2)
    reported = broker.logs()
    found = re.search(r"control 0 has not moved for (\d+) s: its stack follows", reported)
    assert found
    assert 10 <= int(found[1]) < 12, "one check adds up to two seconds"
    assert "failpoint.py" in reported, "the stack shows where it stood"
    peer = SocketPeer(int(broker.bootstrap.rpartition(":")[2]))
    answer = peer.ask(ApiKey.LIST_GROUPS, 4, ListGroupsRequest())
    assert answer is not None
    metrics = reported.rpartition("metrics=")[2].split()[0] + "/metrics"
    with urllib.request.urlopen(metrics.replace("/metrics/metrics", "/metrics")) as page:
        assert 'kbroker_process_stuck_total{role="control"} 1' in page.read().decode()


@pytest.mark.slow
def test_a_broker_whose_control_hangs_stops_in_time_and_cleanly(broker: KBroker) -> None:
    with hang(broker):
        broker.stop(timeout_s=STOPPED_S)  # raises when it takes longer, or unless the exit code is 0


@pytest.mark.slow
def test_a_paused_control_continues(broker: KBroker) -> None:
    control = next(child for title, child in broker.children().items() if "control" in title)
    control.send_signal(signal.SIGSTOP)
    try:
        eventually(lambda: "control 0 has not moved for" in broker.logs())
        time.sleep(MORE_S)
    finally:
        control.send_signal(signal.SIGCONT)
    peer = SocketPeer(int(broker.bootstrap.rpartition(":")[2]))
    assert peer.ask(ApiKey.LIST_GROUPS, 4, ListGroupsRequest()) is not None
    eventually(lambda: "moves again" in broker.logs())
    assert "then it is restarted" not in broker.logs()
