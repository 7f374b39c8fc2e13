"""What control makes of the reports of network processes."""

from kbroker.control.clients.service import ClientReports
from kbroker.ipc.client_messages import ClientReport
from kbroker.ipc.client_messages import SoftwareConnections as Software

ONE, TWO = object(), object()


def test_the_connections_of_a_network_process_go_with_it() -> None:
    clients = ClientReports()
    clients.take(ONE, ClientReport((Software("a", "1", "PLAINTEXT", 2),)))
    clients.take(TWO, ClientReport((Software("b", "1", "PLAINTEXT", 3),)))
    clients.take(TWO, ClientReport())  # nothing has changed
    assert {(one.name, one.connections) for one in clients.use().software} == {("a", 2), ("b", 3)}
    clients.lost(ONE)
    assert {one.name for one in clients.use().software} == {"b"}
