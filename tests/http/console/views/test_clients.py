"""Clients of the network processes, and connections as /proc/net/tcp lists them."""

from pathlib import Path

from kbroker.http.console.views.clients import MAX_QUEUED, address_of, connections, sockets

HEADER = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n"
LINES = (
    "   0: 0100007F:2384 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0\n"
    "   1: 0100007F:2384 0500000A:D2AC 01 00000010:00000003 00:00000000 00000000     0\n"
    "   2: 0100007F:1F90 0600000A:D2AE 01 00000000:00000000 00:00000000 00000000     0\n"
    "garbage\n"
)


def test_established_connections_of_our_ports_are_listed(tmp_path: Path) -> None:
    table = tmp_path / "tcp"
    table.write_text(HEADER + LINES)
    assert list(connections([str(table), str(tmp_path / "none")], [9092])) == [(9092, "10.0.0.5", 16, 3)]


def test_addresses_are_shown_as_people_write_them() -> None:
    assert address_of("0100007F") == "127.0.0.1"
    assert address_of("00000000000000000000000001000000") == "::1"
    assert address_of("0000000000000000FFFF00000500000A") == "10.0.0.5"


def test_addresses_with_queued_bytes_are_listed_and_bounded() -> None:
    idle = [(9092, "10.0.0.1", 0, 0), (9093, "10.0.0.2", 0, 0)]
    busy = [(9092, f"10.1.0.{number}", number, 1) for number in range(1, MAX_QUEUED + 6)]
    by_port, queued = sockets([*idle, *busy, (9093, "10.1.0.25", 7, 0)], [9092, 9093, 9094])
    assert by_port == {9092: len(busy) + 1, 9093: 2, 9094: 0}
    assert queued[0] == {"address": "10.1.0.25", "connections": 2, "unsent_bytes": 32, "unread_bytes": 1}
    assert len(queued) == MAX_QUEUED
