"""What `make dist` makes: the same bytes for the same tree, and a wheel that serves in an
environment with nothing but the locked packages, without compiling anything."""

import json
import os
import platform
import re
import subprocess
import sys
import tarfile
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from tests.peer.kbroker_node import ROOT
from tests.release.installed import Installed, empty_environment, install

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1500),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="images of kernels are for x86-64"),
]

LEVEL = "x86-64-v2"  # every processor of the last ten years runs it
COMPILERS = re.compile(r"^import time:.*\| +(numba(\..*)?|kbroker\.kernels\.(compiler|warm))$", re.MULTILINE)


def copied(target: Path) -> Path:
    """The files of this tree that git knows, or would take."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.check_output(listed, cwd=ROOT, text=True).split("\0"):
        if name and (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (target / name).write_bytes((ROOT / name).read_bytes())
    return target


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The packages of two trees with the same content, made in places of different names."""
    folder = tmp_path_factory.mktemp("dist")
    trees = copied(folder / "one"), copied(folder / "another" / "deeper")
    made = [
        subprocess.Popen(
            [sys.executable, "-m", "release.dist", LEVEL],
            cwd=tree, env=os.environ | {"SOURCE_DATE_EPOCH": "1700000000"},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for tree in trees
    ]  # fmt: skip
    for one in made:
        reported, _ = one.communicate()
        assert one.returncode == 0, reported
    return trees[0] / "dist", trees[1] / "dist"


def only(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(pattern)
    return found


@pytest.fixture(scope="module")
def environment(built: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the packages of requirements/run.txt, and the wheel."""
    folder = empty_environment(tmp_path_factory.mktemp("installed") / "env")
    wheel = only(built[0], f"kbroker-*-cp3{sys.version_info.minor}-*.whl")
    install(folder, "--no-deps", "--require-hashes", "-r", str(ROOT / "requirements" / "run.txt"))
    install(folder, "--no-deps", str(wheel))
    return folder


def test_the_same_tree_gives_the_same_bytes(built: tuple[Path, Path]) -> None:
    one, another = ({file.name: file.read_bytes() for file in folder.iterdir()} for folder in built)
    kinds = sorted(re.sub(r"-[0-9.]+?(?=-|\.tar|\.cdx)", "", name, count=1) for name in one)
    assert len(kinds) == 4, kinds
    assert {"kbroker.cdx.json", "kbroker.tar.gz", "kbroker-py3-none-any.whl"} < set(kinds)
    assert one.keys() == another.keys()
    assert [name for name in one if one[name] != another[name]] == []


def test_a_wheel_of_the_source_archive_is_the_wheel_without_kernels(
    built: tuple[Path, Path], tmp_path: Path
) -> None:
    with tarfile.open(only(built[0], "*.tar.gz")) as archive:
        archive.extractall(tmp_path, filter="data")
    (tree,) = tmp_path.iterdir()
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "wheel")]
    moment = {"SOURCE_DATE_EPOCH": "1700000000"}
    subprocess.run(command, cwd=tree, env=os.environ | moment, check=True, capture_output=True)
    rebuilt = only(tmp_path / "wheel", "*.whl")
    assert rebuilt.read_bytes() == (built[0] / rebuilt.name).read_bytes()


def test_the_wheel_carries_the_broker_its_tools_and_the_image_and_no_tests(built: tuple[Path, Path]) -> None:
    wheel = only(built[0], "*manylinux*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    folders = {name.split("/")[0] for name in names}
    version = wheel.name.split("-")[1]
    assert folders == {"kbroker", "loadtest", "spark_validation", "tuning", f"kbroker-{version}.dist-info"}
    images = [name for name in names if name.startswith("kbroker/kernels/images/")]
    assert [name.rpartition("-x86")[2] for name in images] == ["-64-v2"]
    assert {name for name in names if "/tests/" in name or name.endswith((".nbi", ".nbc", ".pyc"))} == set()


def described(wheel: Path) -> Message:
    """Its metadata."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (one for one in archive.namelist() if one.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(name).decode())


def test_both_wheels_offer_the_load_test_and_the_judge_as_extras(built: tuple[Path, Path]) -> None:
    for wheel in built[0].glob("*.whl"):
        about = described(wheel)
        assert {"loadtest", "judge"} <= set(about.get_all("Provides-Extra", []))
        needed = about.get_all("Requires-Dist", [])

        def of(extra: str, needed: list[str] = needed) -> set[str]:
            own = [one for one in needed if one.endswith(f"extra == '{extra}'")]
            return {re.split(r"[^A-Za-z0-9_-]", one)[0] for one in own}

        assert {"locust", "hdrhistogram", "pyarrow"} <= of("loadtest")
        assert {"pyspark", "pandas", "pyarrow"} <= of("judge")
        always = {one for one in needed if "extra ==" not in one}
        assert not any(one.startswith(("locust", "pyspark", "pytest", "hatchling")) for one in always)


def test_the_bill_lists_what_an_installation_has(built: tuple[Path, Path], environment: Path) -> None:
    bill = json.loads(only(built[0], "*.cdx.json").read_text())
    # some are locked twice, in one version for each minor version of Python
    listed = {(one["name"].lower().replace("_", "-"), one["version"]) for one in bill["components"]}
    script = (
        "import json; from importlib.metadata import distributions; "
        "print(json.dumps({d.name.lower().replace('_', '-'): d.version for d in distributions()}))"
    )
    python = str(environment / "bin" / "python")
    found = json.loads(subprocess.check_output([python, "-I", "-c", script], text=True))
    assert found.pop("kbroker") == bill["metadata"]["component"]["version"]
    assert set(found.items()) <= listed
    assert {"confluent-kafka", "numba", "uvloop"} <= found.keys()


def test_the_installed_broker_serves_without_numba_and_without_compiling(
    environment: Path, tmp_path: Path
) -> None:
    broker = Installed(tmp_path, environment)
    broker.environment["PYTHONPROFILEIMPORTTIME"] = "1"  # each import is a line on stderr
    broker.start()
    try:
        producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True})
        for number in range(100):
            producer.produce("from-a-wheel", b"%d" % number, b"key")
        assert producer.flush(60) == 0
        consumer = Consumer(
            {"bootstrap.servers": broker.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"}
        )
        consumer.subscribe(["from-a-wheel"])
        values: list[bytes | None] = []
        while len(values) < 100:
            (message,) = consumer.consume(1, 60)
            assert message.error() is None
            values.append(message.value())
        consumer.close()
        assert values == [b"%d" % number for number in range(100)]
        loaded = {Path(one.path).name for each in broker.processes() for one in each.memory_maps()}
        assert any(name.startswith("image-") for name in loaded), "the wheel's image is mapped"
        assert not [name for name in loaded if name.startswith("libllvmlite")], "no LLVM links it"
    finally:
        broker.stop()
    reported = broker.logs(last=10**8)
    assert re.search(r"\| +kbroker\.kernels\.image$", reported, re.MULTILINE), "imports are written down"
    assert COMPILERS.findall(reported) == []
    assert list((tmp_path / "cache").rglob("image-*")) == [], "nothing was compiled"


def test_the_installed_commands_start(environment: Path, tmp_path: Path) -> None:
    """The tuner comes along; load test and judge name the extra that brings them."""
    script = str(environment / "bin" / "kbroker")

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([script, *words], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert run("tune", "--help").returncode == 0
    for command, extra in (("loadtest", "kbroker[loadtest]"), ("judge", "kbroker[judge]")):
        done = run(command, "--help")
        assert done.returncode, done.stdout
        assert extra in done.stderr
        assert "Traceback" not in done.stderr
