"""Clients: established connections by address, with the bytes queued in their sockets, and members
of groups by client id."""

import socket
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from kbroker.http.console.paging import page, page_of
from kbroker.http.console.request import Request
from kbroker.http.console.schema import INT, TEXT, fields, many

CLIENTS = fields(
    listeners=many(fields(listener=TEXT, port=INT, connections=INT)),
    **page_of(
        "clients",
        fields(address=TEXT, listeners=many(TEXT), connections=INT, unsent_bytes=INT, unread_bytes=INT),
    )["properties"],
)
ESTABLISHED = "01"
MAX_LINES = 200_000
TABLES = ("/proc/net/tcp", "/proc/net/tcp6")


def clients(request: Request) -> dict[str, Any]:
    """A page of client addresses, sorted by unsent bytes, the largest first."""
    ports = {port: name for name, port in request.ports.items()}
    rows: dict[str, dict[str, Any]] = {}
    by_port = dict.fromkeys(ports, 0)
    for port, address, unsent, unread in connections(TABLES, ports):
        by_port[port] += 1
        row = rows.setdefault(
            address,
            {"address": address, "listeners": set(), "connections": 0, "unsent_bytes": 0, "unread_bytes": 0},
        )
        row["listeners"].add(ports[port])
        row["connections"] += 1
        row["unsent_bytes"] += unsent
        row["unread_bytes"] += unread
    shown = [row | {"listeners": sorted(row["listeners"])} for row in rows.values()]
    shown.sort(key=lambda row: (-row["unsent_bytes"], -row["connections"], row["address"]))
    listeners = [
        {"listener": name, "port": port, "connections": by_port[port]} for port, name in ports.items()
    ]
    return {"listeners": listeners, **page("clients", shown, request)}


def connections(tables: Iterable[str], ports: Iterable[int]) -> Iterator[tuple[int, str, int, int]]:
    """(local port, remote address, unsent bytes, unread bytes) of established connections to these
    ports. psutil does not report the queued bytes."""
    wanted = {f"{port:04X}": port for port in ports}
    for table in tables:
        try:
            with Path(table).open() as lines:
                next(lines, "")
                for _, line in zip(range(MAX_LINES), lines, strict=False):
                    words = line.split()
                    port = wanted.get(words[1].rpartition(":")[2])
                    if port is None or words[3] != ESTABLISHED:
                        continue
                    unsent, unread = (int(word, 16) for word in words[4].split(":"))
                    yield port, address_of(words[2].rpartition(":")[0]), unsent, unread
        except (OSError, ValueError, IndexError):
            continue


def address_of(text: str) -> str:
    """An address of /proc/net/tcp: words of four bytes in the host's order."""
    words = [struct.pack("=I", int(text[at : at + 8], 16)) for at in range(0, len(text), 8)]
    raw = b"".join(words)
    if len(raw) == 4:
        return socket.inet_ntoa(raw)
    if raw.startswith(b"\0" * 10 + b"\xff\xff"):
        return socket.inet_ntoa(raw[12:])
    return socket.inet_ntop(socket.AF_INET6, raw)
