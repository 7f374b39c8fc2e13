"""Ports for programs that tests start."""

import socket
import subprocess
import sys
from pathlib import Path

from tests.peer import ports
from tests.peer.ports import free_port, free_ports

CHOOSE = """
import random
from tests.peer import ports
ports._choose = random.Random(7)
print(ports.free_port(), flush=True)
input()
"""


def test_no_outgoing_connection_takes_them() -> None:
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert max(ports.PORTS) < first
    assert free_port() in ports.PORTS


def test_two_processes_choose_different_ports() -> None:
    chosen = []
    started = []
    try:
        for _ in range(2):
            one = subprocess.Popen(
                [sys.executable, "-c", CHOOSE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            started.append(one)
            assert one.stdout is not None
            chosen.append(int(one.stdout.readline()))
    finally:
        for one in started:
            one.communicate("\n", timeout=30)
    assert chosen[0] != chosen[1]


def test_neighbours_of_a_port_that_is_taken_are_passed_over() -> None:
    seed = 11
    ports._choose.seed(seed)
    first = free_ports(3)
    ports._claims.clear()
    ports._choose.seed(seed)
    with socket.create_server(("127.0.0.1", first + 2)):
        assert free_ports(3) != first
