"""Connected clients: address, client id, software, principal, listener and rates, from the network
processes, and the bytes that are queued in the sockets of each address, from the kernel."""

import socket
import struct
from collections.abc import Iterable, Iterator
from heapq import nlargest
from pathlib import Path
from typing import Any

from kbroker.http.console.paging import page, page_of
from kbroker.http.console.request import Request
from kbroker.http.console.schema import BOOL, INT, TEXT, Parameter, fields, many, maybe
from kbroker.http.console.views.settings import check_may_read
from kbroker.ipc.client_messages import ConnectedClient

CLIENT = fields(
    address=TEXT,
    client_id=TEXT,
    software_name=maybe(TEXT),
    software_version=maybe(TEXT),
    principal=TEXT,
    listener=TEXT,
    protocol=TEXT,
    tls=BOOL,
    connections=INT,
    in_bytes_s=INT,
    out_bytes_s=INT,
)
CLIENTS = fields(
    listeners=many(fields(listener=TEXT, port=INT, protocol=TEXT, connections=INT)),
    queued=many(fields(address=TEXT, connections=INT, unsent_bytes=INT, unread_bytes=INT)),
    left_out=INT,
    left_out_connections=INT,
    **page_of("clients", CLIENT)["properties"],
)
SEARCH = Parameter("search", "A text in the client id, address, software, principal or listener.")
ESTABLISHED = "01"
MAX_LINES = 200_000
MAX_QUEUED = 20
"""Addresses with queued bytes, those with the most."""
TABLES = ("/proc/net/tcp", "/proc/net/tcp6")


def clients(request: Request) -> dict[str, Any]:
    """A page of clients, those with the most bytes per second first. They have names and addresses
    of others, so a user needs the permission to describe the broker's settings."""
    check_may_read(request, "clients")
    protocols = {one.listener: one.protocol for one in request.config.listeners}
    found = request.view.connected()
    pattern = (request["search"] or "").lower()
    rows = [_row(one, protocols) for one in found.clients if pattern in _searched(one)]
    ports = {port: name for name, port in request.ports.items()}
    by_port, queued = sockets(connections(TABLES, ports), ports)
    listeners = [
        {"listener": name, "port": port, "protocol": protocols[name].name, "connections": by_port[port]}
        for port, name in ports.items()
    ]
    return {
        "listeners": listeners,
        "queued": queued,
        "left_out": found.left_out,
        "left_out_connections": found.left_out_connections,
        **page("clients", rows, request),
    }


def _searched(one: ConnectedClient) -> str:
    """The texts that a search reads, a line each, so that none reaches into the next."""
    software = f"{one.software_name} {one.software_version}"
    texts = one.client_id, one.address, software, one.principal, one.listener
    return "\n".join(texts).lower()


def _row(one: ConnectedClient, protocols: Any) -> dict[str, Any]:
    protocol = protocols[one.listener]
    return {
        "address": one.address,
        "client_id": one.client_id,
        "software_name": one.software_name or None,
        "software_version": one.software_version or None,
        "principal": one.principal,
        "listener": one.listener,
        "protocol": protocol.name,
        "tls": protocol.tls,
        "connections": one.connections,
        "in_bytes_s": round(one.in_bytes_s),
        "out_bytes_s": round(one.out_bytes_s),
    }


def sockets(
    found: Iterable[tuple[int, str, int, int]], ports: Iterable[int]
) -> tuple[dict[int, int], list[dict[str, Any]]]:
    """Connections by port, and the addresses with the most queued bytes."""
    by_port = dict.fromkeys(ports, 0)
    rows: dict[str, dict[str, Any]] = {}
    for port, address, unsent, unread in found:
        by_port[port] += 1
        if unsent or unread:
            none = {"address": address, "connections": 0, "unsent_bytes": 0, "unread_bytes": 0}
            row = rows.setdefault(address, none)
            row["connections"] += 1
            row["unsent_bytes"] += unsent
            row["unread_bytes"] += unread
    return by_port, nlargest(MAX_QUEUED, rows.values(), lambda row: row["unsent_bytes"] + row["unread_bytes"])


def connections(tables: Iterable[str], ports: Iterable[int]) -> Iterator[tuple[int, str, int, int]]:
    """(local port, remote address, unsent bytes, unread bytes) of established connections to these
    ports. psutil does not report the queued bytes."""
    port_of = {f"{port:04X}": port for port in ports}
    for table in tables:
        try:
            with Path(table).open() as lines:
                next(lines, "")
                for _, line in zip(range(MAX_LINES), lines, strict=False):
                    words = line.split()
                    port = port_of.get(words[1].rpartition(":")[2])
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
