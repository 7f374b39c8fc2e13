"""Connections as /proc/net/tcp lists them."""

from pathlib import Path

from kbroker.http.console.views.clients import address_of, connections

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
