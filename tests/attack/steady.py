"""A steady client in a process of its own, so that the attacker's work does not slow it down."""

import json
import subprocess
import sys
import threading

from tests.attack.storm import rest_after

MAX_S = 600.0


class Steady:
    """Round trips of a client that asks for ApiVersions every two milliseconds while the block
    runs."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.trips: list[float] = []

    def __enter__(self) -> "Steady":
        command = [sys.executable, "-m", "tests.attack.steady", str(self._port)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"
        return self

    def __exit__(self, *_: object) -> None:
        self.trips = json.loads(self._process.communicate(b"stop\n", timeout=120)[0])


def p99(trips: list[float]) -> float:
    """In seconds."""
    return sorted(trips)[len(trips) * 99 // 100]


def _main(port: int) -> None:
    print("ready", flush=True)
    stop = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.readline(), stop.set()), daemon=True).start()
    print(json.dumps(rest_after(port, MAX_S, stop=stop.is_set)))


if __name__ == "__main__":
    _main(int(sys.argv[1]))
