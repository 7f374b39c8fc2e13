"""sendfile of cached bytes to a socket of this host, and the cost of both sides: the cost of
fetches by local clients, and the factor that converts kbroker's CPU costs from the machine of
docs/benchmarks.md to this one.
"""

import os
import resource
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

CHUNK = 1 << 20
BUFFER = 1 << 20  # kbroker.local.socket.buffer.bytes
CONGESTION = b"reno"  # kbroker.local.congestion.control
GB = 1e9

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class LoopbackFigures:
    """rate: bytes/s. send_cpu, receive_cpu: CPU s a GB."""

    rate: float
    send_cpu: float
    receive_cpu: float


def measure_loopback(folder: Path, seconds: float, clock: Clock = time.perf_counter) -> LoopbackFigures:
    """One connection for `seconds`: this thread receives, a second one sends. Raises OSError."""
    sender_cpu: list[float] = []
    with _cached(folder) as file, _pair() as (outgoing, incoming):
        thread = threading.Thread(target=_send, args=(file.fileno(), outgoing, sender_cpu), daemon=True)
        start, cpu_before = clock(), _cpu()
        thread.start()
        received = _receive(incoming, start + seconds, clock)
        elapsed, cpu = clock() - start, _cpu() - cpu_before
        incoming.shutdown(socket.SHUT_RDWR)  # the sender's next call fails, which ends it
        thread.join()
    amount = max(received, 1) / GB
    return LoopbackFigures(received / elapsed, sender_cpu[0] / amount, cpu / amount)


class _cached:  # noqa: N801  used as a function
    """A file of CHUNK bytes in the page cache, removed at the end."""

    def __init__(self, folder: Path) -> None:
        self._name = folder / f".tuning-loopback-{os.getpid()}"

    def __enter__(self) -> "_cached":
        self._file = open(self._name, "w+b", buffering=0)
        self._file.write(os.urandom(CHUNK))
        return self

    def fileno(self) -> int:
        return self._file.fileno()

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._name.unlink(missing_ok=True)


class _pair:  # noqa: N801
    """Two ends of a loopback connection with the options that kbroker gives to local clients."""

    def __enter__(self) -> tuple[socket.socket, socket.socket]:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self._incoming = socket.create_connection(listener.getsockname())
            self._outgoing, _ = listener.accept()
        for end in (self._incoming, self._outgoing):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)
            end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
            try:
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, CONGESTION)
            except OSError:  # as the broker does without it
                continue
        return self._outgoing, self._incoming

    def __exit__(self, *_: object) -> None:
        self._incoming.close()
        self._outgoing.close()


def _send(file: int, outgoing: socket.socket, cpu: list[float]) -> None:
    before = _cpu()
    try:
        while True:
            left = CHUNK
            while left:
                left -= os.sendfile(outgoing.fileno(), file, CHUNK - left, left)
    except OSError:  # the receiver has seen enough
        pass
    cpu.append(_cpu() - before)


def _receive(incoming: socket.socket, until: float, clock: Clock) -> int:
    buffer = bytearray(CHUNK)
    received = 0
    while not received or clock() < until:
        received += incoming.recv_into(buffer)
    return received


def _cpu() -> float:
    """CPU seconds of this thread."""
    used = resource.getrusage(resource.RUSAGE_THREAD)
    return used.ru_utime + used.ru_stime
