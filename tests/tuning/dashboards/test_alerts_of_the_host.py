"""A host whose tasks all wait for its disks fires the shipped alert in a real Prometheus.

The broker has a mount namespace in which a file of the test is in place of /proc/pressure/io: the
pressure itself would be that of every program on this machine."""

import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import _run
from tests.peer.kbroker_node import KBroker
from tests.tuning.dashboards.prometheus import Prometheus, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

WAIT_S = 120.0
KERNELS = Path("/proc/pressure/io")
NAMESPACE = ("unshare", "--mount", "--propagation", "private", "sh", "-c")
STALL_US = 6_000_000
"""What a host adds in 15 s, of which its tasks wait for 6 s."""


class Pressure:
    """The file, as the kernel writes it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._full_us = 646_070_708
        self.add(0)

    def add(self, microseconds: int) -> None:
        """The lines keep their length: the broker reads the old or the new numbers."""
        self._full_us += microseconds
        some = f"some avg10=2.62 avg60=3.48 avg300=3.45 total={2 * self._full_us:012d}\n"
        full = f"full avg10=0.16 avg60=1.75 avg300=1.83 total={self._full_us:012d}\n"
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            os.pwrite(descriptor, (some + full).encode(), 0)
        finally:
            os.close(descriptor)


class Pressed(KBroker):
    """A kbroker that reads another file as /proc/pressure/io."""

    pressure: Pressure

    def _command(self) -> list[str]:
        script = f'{mounting(self.pressure.path)} && exec "$@"'
        return [*NAMESPACE, script, "sh", *super()._command()]


def mounting(path: Path) -> str:
    """The shell command that puts a file in place of the kernel's."""
    return f"mount --bind {shlex.quote(str(path))} {KERNELS}"


def refused(path: Path) -> str:
    """The reason why this machine cannot run the test; empty if it can."""
    if not KERNELS.exists():
        return "no pressure of its own: the kernel has none"
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        return "no pressure of its own: that takes root and unshare"
    tried = subprocess.run([*NAMESPACE, mounting(path)], capture_output=True, text=True, timeout=60)
    return f"no pressure of its own: {tried.stderr.strip()}" if tried.returncode else ""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pressed]:
    folder = tmp_path_factory.mktemp("pressed")
    made = Pressed(folder)
    made.pressure = Pressure(folder / "io")
    if why := refused(made.pressure.path):
        pytest.skip(why)
    running = _run(made)
    next(running)
    yield made
    next(running, None)


@pytest.fixture(scope="module")
def prometheus(node: Pressed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    made = Prometheus(tmp_path_factory.mktemp("prometheus"), node, impatient=True)
    try:
        assert until(lambda: made.has("kbroker_info"), WAIT_S)
        yield made
    finally:
        made.stop()


def test_a_host_that_waits_for_its_disks_fires(node: Pressed, prometheus: Prometheus) -> None:
    total = 'kbroker_pressure_seconds_total{resource="io", kind="full"}'
    assert until(lambda: prometheus.values(total) == ["646.070708"], WAIT_S), "the broker reads another file"
    assert "KbrokerIoPressure" not in prometheus.firing()

    def fires() -> bool:
        node.pressure.add(STALL_US)
        return "KbrokerIoPressure" in prometheus.firing()

    assert until(fires, WAIT_S)
