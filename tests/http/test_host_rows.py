"""Host metrics from a procfs of our own and from this process."""

import os
import socket
import subprocess
import sys
from functools import partial
from mmap import PAGESIZE
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from kbroker.http.disks import disks_of
from kbroker.http.families import Families
from kbroker.http.host_rows import HostRows
from kbroker.http.recent_readings import RecentReadings
from kbroker.ipc.layout import ProcessLine
from tests.http.evicted import keep_cached_from, resident_pages
from tests.http.scene import NETWORK, Scene
from tests.peer.program import program
from tests.peer.scrape import Scrape


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    folder = tmp_path / "proc"
    (folder / "pressure").mkdir(parents=True)
    (folder / "net").mkdir()
    (folder / "diskstats").write_text(
        "   7       0 loop0 1 1 1 1 1 1 1 1 0 1 1\n   8       1 sda1 10 0 80 2000 20 0 160 3000 0 4000 5000\n"
    )
    for resource in ("cpu", "io", "memory"):
        (folder / "pressure" / resource).write_text(
            "some avg10=0.00 avg60=0.00 avg300=0.00 total=1500000\n"
            "full avg10=0.00 avg60=0.00 avg300=0.00 total=500000\n"
        )
    (folder / "net" / "dev").write_text("Inter-|   Receive\n face |bytes\n")
    (folder / "net" / "snmp").write_text("Ip: A\nIp: 1\nTcp: InSegs RetransSegs\nTcp: 99 7\n")
    (folder / "net" / "netstat").write_text("TcpExt: SyncookiesSent ListenDrops\nTcpExt: 1 3\n")
    (folder / "meminfo").write_text("MemTotal:  1000 kB\nMemAvailable: 400 kB\nCached: 300 kB\nDirty: 2 kB\n")
    return folder


@pytest.fixture
def disk(tmp_path: Path, proc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk of tmp_path is sda1."""
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(proc))
    number = tmp_path.stat().st_dev
    devices = tmp_path / "block"
    devices.mkdir()
    (devices / f"{os.major(number)}:{os.minor(number)}").symlink_to("../../devices/block/sda/sda1")
    monkeypatch.setattr("kbroker.http.host_rows.disks_of", partial(disks_of, devices=devices))


def scrape(rows: HostRows) -> Scrape:
    families = Families(kafka=True)
    rows.add(families)
    return Scrape(families.text(openmetrics=False).decode())


@pytest.mark.usefixtures("disk")
def test_devices_pressure_and_memory_are_read_from_procfs(tmp_path: Path, proc: Path) -> None:
    found = scrape(
        HostRows(Scene(tmp_path).shared, os.getpid(), [str(tmp_path)], RecentReadings(lambda: 0.0), proc)
    )
    assert found.value("kbroker_disk_bytes_total", device="sda1", direction="read") == 80 * 512
    assert found.value("kbroker_disk_operations_total", device="sda1", direction="write") == 20
    assert found.value("kbroker_disk_time_seconds_total", device="sda1", direction="write") == 3
    assert found.value("kbroker_disk_busy_seconds_total", device="sda1") == 4
    assert found.value("kbroker_pressure_seconds_total", resource="io", kind="full") == 0.5
    assert found.value("kbroker_tcp_retransmits_total") == 7
    assert found.value("kbroker_tcp_listen_drops_total") == 3
    assert found.value("kbroker_memory_bytes", type="page_cache") == 300 * 1024


def test_network_bytes_are_those_of_the_kernel(tmp_path: Path, proc: Path) -> None:
    """Between two reads of /proc/net/dev, for every interface of this host."""

    def kernel() -> dict[str, tuple[int, int]]:
        lines = Path("/proc/net/dev").read_text().splitlines()[2:]
        rows = {line.partition(":")[0].strip(): line.partition(":")[2].split() for line in lines}
        return {device: (int(row[0]), int(row[8])) for device, row in rows.items()}

    rows = HostRows(Scene(tmp_path).shared, os.getpid(), [str(tmp_path)], RecentReadings(lambda: 0.0), proc)
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as out,
    ):
        out.sendall(b"x" * 10_000)  # so that loopback is not at 0
        before, found, after = kernel(), scrape(rows), kernel()
    assert before["lo"][0] > 10_000
    for device in before.keys() & after.keys():
        for number, direction in enumerate(("in", "out")):
            value = found.value("kbroker_network_bytes_total", device=device, direction=direction)
            assert before[device][number] <= value <= after[device][number], (device, direction)


@pytest.mark.usefixtures("disk")
def test_other_devices_are_left_out(tmp_path: Path, proc: Path) -> None:
    found = scrape(
        HostRows(Scene(tmp_path).shared, os.getpid(), [str(tmp_path)], RecentReadings(lambda: 0.0), proc)
    )
    assert {labels["device"] for labels in found.labels("kbroker_disk_bytes_total")} == {"sda1"}


def test_readings_that_the_host_does_not_have_are_left_out(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    found = scrape(
        HostRows(Scene(tmp_path).shared, os.getpid(), [str(tmp_path)], RecentReadings(lambda: 0.0), empty)
    )
    assert found.labels("kbroker_pressure_seconds_total") == []
    assert found.value("kbroker_log_dir_bytes", dir=str(tmp_path), type="size") > 0


def test_processes_are_named_and_a_dead_one_is_left_out(tmp_path: Path, proc: Path) -> None:
    scene = Scene(tmp_path)
    scene.shared.processes[NETWORK, ProcessLine.PID] = os.getpid()
    scene.shared.processes[1, ProcessLine.PID] = 1 << 22  # above pid_max
    found = scrape(HostRows(scene.shared, os.getppid(), [str(tmp_path)], RecentReadings(lambda: 0.0), proc))
    assert found.value("kbroker_process_memory_bytes", process="network-0", type="pss") > 1 << 20
    assert {labels["process"] for labels in found.labels("kbroker_process_threads")} == {
        "network-0",
        "acceptor",
    }


def test_the_page_cache_of_log_files_adds_up_by_topic(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.topic("orders", 2)
    for partition in scene.view.directory.partitions:
        (Path(partition.folder) / "00000000000000000000.log").write_bytes(b"x" * 40_960)
        (Path(partition.folder) / "00000000000000000000.index").write_bytes(b"x" * 8192)
    cache = scene.page_cache
    cache.refresh(scene.view.directory)
    if not cache.works:
        pytest.skip("this kernel has no cachestat")
    found = scene.scrape()
    assert found.value("kbroker_topic_page_cache_looked_at_bytes", topic="orders") == 2 * 40_960
    assert found.value("kbroker_topic_page_cache_bytes", topic="orders", state="cached") == 2 * 40_960


def test_the_page_cache_is_what_mincore_finds(tmp_path: Path) -> None:
    """After a quarter of a log was evicted."""
    scene = Scene(tmp_path)
    scene.topic("orders")
    file = Path(scene.view.directory.partitions[0].folder) / "00000000000000000000.log"
    file.write_bytes(b"x" * 64 * PAGESIZE)
    keep_cached_from(file, 16)
    cache = scene.page_cache
    cache.refresh(scene.view.directory)
    if not cache.works:
        pytest.skip("this kernel has no cachestat")
    found = scene.scrape().value("kbroker_topic_page_cache_bytes", topic="orders", state="cached")
    assert found == resident_pages(file) * PAGESIZE == 48 * PAGESIZE
    assert not cache.holds_all_of(str(file.parent))


BURN = "import time\nwhile time.process_time() < 0.5: pass\nprint(flush=True)\ninput()"


def test_the_cpu_time_of_a_process_that_died_stays_in_the_sum(tmp_path: Path, proc: Path) -> None:
    """Otherwise rate() takes the fall for a restart of the broker, and counts everything again."""
    scene = Scene(tmp_path)
    rows = HostRows(scene.shared, os.getpid(), [str(tmp_path)], RecentReadings(lambda: 0.0), proc)
    with program([sys.executable, "-c", BURN], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        scene.shared.processes[NETWORK, ProcessLine.PID] = child.pid
        found = scrape(rows)
        own = sum(
            found.value("kbroker_process_cpu_seconds_total", process=name, mode=mode)
            for name in ("network-0", "acceptor")
            for mode in ("user", "system")
        )
        total = found.value("process_cpu_seconds_total")
        assert total >= own
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it is dead, and not collected
        assert scrape(rows).value("process_cpu_seconds_total") >= total
    assert scrape(rows).value("process_cpu_seconds_total") >= total
    fresh = HostRows(scene.shared, os.getpid(), [str(tmp_path)], RecentReadings(lambda: 0.0), proc)
    assert scrape(fresh).value("process_cpu_seconds_total") >= total


def test_fast_links_have_their_speed_and_unknown_ones_none(
    tmp_path: Path, proc: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    megabits = {"eth0": 100_000, "eth1": 10_000, "eth2": 65_535, "eth3": 0, "eth4": -1, "eth5": 400_000}
    found = {name: SimpleNamespace(speed=speed) for name, speed in megabits.items()}
    monkeypatch.setattr(psutil, "net_if_stats", lambda: found)
    rows = HostRows(Scene(tmp_path).shared, os.getpid(), [str(tmp_path)], RecentReadings(lambda: 0.0), proc)
    name = "kbroker_network_link_bytes_per_second"
    scraped = scrape(rows)
    seen = {labels["device"]: scraped.value(name, **labels) for labels in scraped.labels(name)}
    assert seen == {"eth0": 12.5e9, "eth1": 1.25e9, "eth5": 50e9}


def test_the_forecast_of_a_full_disk_outlives_the_http_process(tmp_path: Path, proc: Path) -> None:
    """Its alert would end for a minute, although the disk fills as before."""
    scene = Scene(tmp_path)
    for now_s in (1000.0, 1030.0, 1060.0):
        clock = RecentReadings(lambda: now_s)  # noqa: B023
        found = scrape(HostRows(scene.shared, os.getpid(), [str(tmp_path)], clock, proc))
    assert found.value("kbroker_log_dir_full_seconds", dir=str(tmp_path)) > 0
