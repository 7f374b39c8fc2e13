"""Connections by software are added up over network processes, in a bounded number."""

from kbroker.control.clients.service import MAX_SHOWN, added_up
from kbroker.ipc.client_messages import SoftwareConnections as Software


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


def test_what_a_network_process_left_out_stays_other_however_much_it_is() -> None:
    reports = [[Software("other", "other", "PLAINTEXT", 900)], [Software("a", "1", "PLAINTEXT", 1)]]
    assert added_up(reports, most=1) == (
        Software("a", "1", "PLAINTEXT", 1),
        Software("other", "other", "PLAINTEXT", 900),
    )
