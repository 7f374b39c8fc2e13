"""A cleaner's calls to control: an answer that never comes delays neither the cleaner without end
nor its stop."""

import threading
from collections.abc import Iterator

import pytest

from kbroker.cleaner import caller as module
from kbroker.cleaner.caller import Caller
from kbroker.ipc import connecting
from kbroker.ipc.cleaning_messages import BrokerSettings
from kbroker.ipc.connecting import ControlSockets
from kbroker.ipc.link import LinkClosed


@pytest.fixture
def control_sockets() -> Iterator[ControlSockets]:
    """The way to a control process that accepts no link."""
    made = connecting.make()
    yield made
    made.close()


def test_an_unanswered_call_ends(control_sockets: ControlSockets) -> None:
    caller = Caller(control_sockets.connector, threading.Event(), answer_s=0.05)
    with pytest.raises(LinkClosed, match="no answer in time"):
        caller.call(BrokerSettings())


@pytest.mark.timeout(20)
def test_a_stop_ends_a_call_before_its_time(
    control_sockets: ControlSockets, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STOPPING_S", 0.05)
    monkeypatch.setattr(module, "POLL_S", 0.01)
    stop = threading.Event()
    threading.Timer(0.1, stop.set).start()
    with pytest.raises(LinkClosed, match="no answer in time"):
        Caller(control_sockets.connector, stop, answer_s=3600).call(BrokerSettings())
