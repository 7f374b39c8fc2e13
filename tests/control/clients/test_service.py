"""Reports of network processes about their clients, as control adds them up."""

from pathlib import Path

from kbroker.config.client_quotas import PRODUCER_BYTE_RATE, USER, QuotaTable, entity_of
from kbroker.control.clients.service import MAX_SHOWN, ClientReports, added_up
from kbroker.ipc.client_messages import ClientReport, MovedBytes, Throttled
from kbroker.ipc.client_messages import SoftwareConnections as Software
from tests.control.fakes import world

ONE, TWO = object(), object()


def test_the_connections_of_a_network_process_go_with_it(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        clients = ClientReports(made.broker)
        clients.take(ONE, ClientReport((Software("a", "1", "PLAINTEXT", 2),)))
        clients.take(TWO, ClientReport((Software("b", "1", "PLAINTEXT", 3),)))
        clients.take(TWO, ClientReport())  # nothing has changed
        assert {(one.name, one.connections) for one in clients.use().software} == {("a", 2), ("b", 3)}
        clients.lost(ONE)
        assert {one.name for one in clients.use().software} == {"b"}


def test_throttled_requests_stay_when_their_network_process_ends(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        made.broker.quotas = QuotaTable({entity_of([(USER, "u")]): {PRODUCER_BYTE_RATE: 1.0}})
        clients = ClientReports(made.broker, lambda: 10_000)
        clients.take(ONE, ClientReport(throttled=(Throttled(PRODUCER_BYTE_RATE, "u", "", 3, 500),)))
        clients.lost(ONE)
        (row,) = clients.use().quotas
        assert (row.throttled_requests, row.throttled_ms) == (3, 500)


def test_bytes_of_all_network_processes_add_up(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        clients = ClientReports(made.broker, lambda: 10_000)
        for link in (ONE, TWO):
            clients.take(link, ClientReport(moved=(MovedBytes("c", 1, 2),)))
        clients.lost(ONE)
        assert clients.use().moved == (MovedBytes("c", 2, 4), MovedBytes("other", 0, 0))


def test_the_connections_of_all_network_processes_add_up() -> None:
    first = (Software("a", "1", "PLAINTEXT", 2), Software("a", "1", "SSL", 1))
    second = (Software("a", "1", "PLAINTEXT", 3), Software("b", "1", "PLAINTEXT", 1))
    assert added_up([first, second]) == (
        Software("a", "1", "PLAINTEXT", 5),
        Software("a", "1", "SSL", 1),
        Software("b", "1", "PLAINTEXT", 1),
    )


def test_the_software_with_the_most_connections_is_named_and_the_rest_is_other() -> None:
    reports = [[Software(f"s-{number}", "1", "PLAINTEXT", number + 1) for number in range(MAX_SHOWN + 5)]]
    found = {one.name: one.connections for one in added_up(reports)}
    assert len(found) == MAX_SHOWN + 1
    assert found["other"] == 1 + 2 + 3 + 4 + 5
    assert found[f"s-{MAX_SHOWN + 4}"] == MAX_SHOWN + 5


def test_connections_counted_as_other_stay_other_however_many_they_are() -> None:
    reports = [[Software("other", "other", "PLAINTEXT", 900)], [Software("a", "1", "PLAINTEXT", 1)]]
    assert added_up(reports, max_shown=1) == (
        Software("a", "1", "PLAINTEXT", 1),
        Software("other", "other", "PLAINTEXT", 900),
    )
