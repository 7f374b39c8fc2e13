"""The polled end of a link receives messages without waiting, and notices the other side's end."""

import pytest

from kbroker.ipc import connecting
from kbroker.ipc.link import LinkClosed
from kbroker.ipc.messages import Hello
from kbroker.ipc.move_messages import MovesInProgress
from kbroker.ipc.polled_link import PolledLink
from kbroker.ipc.wire import pack
from tests.ipc.links import next_link


def test_polled_end_receives_everything_and_notices_the_end() -> None:
    control_sockets = connecting.make()
    link = PolledLink(control_sockets.connector)
    peer = next_link(control_sockets.listener)
    assert link.receive() == []
    peer.sendall(pack(4, MovesInProgress()) + pack(5, Hello("io", 0, 1)))
    assert link.receive() == [(4, MovesInProgress()), (5, Hello("io", 0, 1))]
    peer.close()
    with pytest.raises(LinkClosed):
        link.receive()
    link.close()
    control_sockets.close()
