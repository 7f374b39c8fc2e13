"""release/Containerfile builds, and its container serves: as an unprivileged user on a read-only
root, with a health check, and SIGTERM stops it clean."""

import platform
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from release import try_install
from tests.release.container import PATIENCE_S, Container, Image, build
from tests.release.own_wheel import own_wheel

pytestmark = [
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.timeout(1500),
    pytest.mark.skipif(
        platform.machine() != "x86_64" or sys.version_info[:2] != (3, 11),
        reason="images of kernels are for x86-64, and the container has Python 3.11",
    ),
]
USER = 10092
NO_CAPABILITY = "0000000000000000"
MAX_MB = 240
PLACES = ("/etc", "/opt/kbroker", "/tmp", "/var/lib/kafka", "/")


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    try:
        base = try_install.debian(try_install.FOLDER)
    except try_install.CannotTry as reason:
        pytest.skip(f"no bare Debian: {reason}")
    folder = tmp_path_factory.mktemp("image")
    return build(base, folder, own_wheel(folder / "dist"))


@pytest.fixture
def container(image: Image, tmp_path: Path) -> Iterator[Container]:
    made = Container(image, tmp_path)
    yield made
    made.kill()


def statuses(container: Container) -> list[dict[str, list[str]]]:
    """The fields of /proc/PID/status of each process."""
    texts = [Path(f"/proc/{process.pid}/status").read_text() for process in container.processes()]
    return [
        {name: value.split() for name, _, value in (line.partition(":") for line in text.splitlines())}
        for text in texts
    ]


def test_it_serves_as_its_user_without_a_capability(container: Container) -> None:
    container.start()
    found = statuses(container)
    assert len(found) > 3
    for status in found:
        assert status["Uid"] == [str(USER)] * 4
        assert [status[name] for name in ("CapEff", "CapPrm", "CapBnd")] == [[NO_CAPABILITY]] * 3
        assert status["NoNewPrivs"] == ["1"]
    created = container.execute("kbroker", "topics", "create", "hello")
    assert (created.returncode, created.stderr) == (0, "hello: created\n")
    page = container.execute("kbroker", "status")
    assert page.returncode == 0, page.stdout


def test_it_writes_to_its_volume_alone(container: Container) -> None:
    container.start()
    for place in PLACES:
        refused = container.execute("touch", f"{place}/a-file")
        assert "Read-only file system" in refused.stderr
    assert container.execute("touch", "/data/a-file").returncode == 0
    assert {"a-file", "logs"} <= {path.name for path in container.volume.iterdir()}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_clean_and_the_volume_keeps_its_records(container: Container, number: int) -> None:
    container.start()
    write = "seq 100 | kbroker produce hello --quiet"
    assert container.execute("sh", "-c", write).returncode == 0
    assert container.stop(number) == 0
    assert "kbroker stopped" in container.log.read_text()
    container.start(KAFKA_LOG_RETENTION_MS="86400000")
    read = container.execute("kbroker", "consume", "hello", "--until-end", "--quiet")
    assert sorted(map(int, read.stdout.split())) == list(range(1, 101))
    shown = container.execute("kbroker", "configs", "describe", "broker", "1", "--key", "log.retention.ms")
    assert "86400000" in shown.stdout
    assert container.stop(signal.SIGTERM) == 0


def test_the_health_check_fails_while_the_broker_does_not_answer(container: Container) -> None:
    container.start()
    (front,) = (one for one in container.processes() if "http" in " ".join(one.cmdline()))
    front.suspend()
    assert not container.healthy()
    front.resume()
    assert container.healthy()


def test_the_image_is_small(image: Image) -> None:
    """docs/install.md names the size, and CI cannot make the image of FROM."""
    kbroker = int(subprocess.check_output(["du", "-sm", image.root / "opt/kbroker"], text=True).split()[0])
    assert kbroker <= MAX_MB, f"{kbroker} MB in /opt/kbroker"


def test_commands_on_files_need_no_compiler(container: Container) -> None:
    container.start()
    write = "seq 100 | kbroker produce hello --quiet && kbroker backup /data/backup"
    assert container.execute("sh", "-c", write).returncode == 0
    password = ("--offline", "/data/server.properties", "--password-file", "/data/server.properties")
    container.execute("sh", "-c", "echo log.dirs=/data/new > /data/server.properties")
    for words in (
        ("restore", "/data/backup", "/data/restored"),
        ("log", "dump", "/data/restored/hello-0"),
        ("users", "add", "admin", *password),
    ):
        done = container.execute("kbroker", *words)
        assert done.returncode == 0, done.stderr


def test_a_processor_of_before_2009_ends_the_start_with_one_line(container: Container) -> None:
    shown = Path("/proc/cpuinfo").read_text()
    assert " ssse3 " in shown
    container.processor.write_text(shown.replace(" ssse3 ", " ").replace(" popcnt ", " "))
    assert container.begin().wait(PATIENCE_S) == 1
    (line,) = (line for line in container.log.read_text().splitlines() if "ERROR" in line)
    assert "cannot start: the compiled kernels need a processor of x86-64-v2, and this one lacks" in line
    assert "lacks popcnt, ssse3; no compiler is installed here" in line
    assert "Traceback" not in container.log.read_text()
