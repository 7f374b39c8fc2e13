"""Each extra of the wheel, in an empty environment: the packages that it names are enough for the
smallest use of it."""

import functools
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from spark_validation.java import NoJava, java_home
from tests.cli.backup.s3_server import environment as store_settings
from tests.cli.backup.s3_server import s3_server
from tests.compat.registry_requests import LISTEN, ORDER, ask, url_of
from tests.peer.kbroker_node import ROOT
from tests.release.installed import Installed, command, empty_environment, install
from tests.release.own_wheel import own_wheel

pytestmark = [
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.timeout(1500),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="images of kernels are for x86-64"),
]
LOCKED = ("run", "load", "spark", "dev")
LOAD = ("--seconds", "5", "--rate", "500", "--workers", "1", "--consumers", "0", "--copiers", "0")
"""Without groups, whose members may join a busy machine's broker only after the end."""
JSON_SCHEMA = '{"type": "object", "properties": {"id": {"type": "integer"}}}'
PROTOBUF = 'syntax = "proto3"; message Order { int64 id = 1; }'

Environments = Callable[[str], Path]


@pytest.fixture(scope="module")
def of_extra(tmp_path_factory: pytest.TempPathFactory) -> Environments:
    """An environment with the wheel and this extra: pip's resolution, in the versions of the lock
    files."""
    wheel = own_wheel(tmp_path_factory.mktemp("dist"))
    versions = [word for name in LOCKED for word in ("-c", str(ROOT / "requirements" / f"{name}.txt"))]

    @functools.cache
    def made(extra: str) -> Path:
        folder = empty_environment(tmp_path_factory.mktemp(extra) / "env")
        install(folder, *versions, f"kbroker[{extra}] @ {wheel.as_uri()}")
        return folder

    return made


@contextmanager
def running(folder: Path, environment: Path, settings: dict[str, str] | None = None) -> Iterator[Installed]:
    broker = Installed(folder, environment, settings)
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()


def done(environment: Path, folder: Path, *words: str, **variables: str) -> str:
    """The output of a command that ends with 0."""
    ended = command(environment, folder, *words, **variables)
    assert ended.returncode == 0, f"{words}\n{ended.stdout[-4000:]}"
    assert "Traceback" not in ended.stdout
    return ended.stdout


@pytest.fixture(scope="module")
def loaded(of_extra: Environments, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The histories of a short load by kbroker[loadtest], and the log dir of its broker."""
    environment, folder = of_extra("loadtest"), tmp_path_factory.mktemp("load")
    with running(folder, environment, {"auto.create.topics.enable": "false"}) as broker:
        words = ("run", "--target", broker.bootstrap, "--folder", str(folder / "run"), *LOAD)
        reported = done(environment, folder, "loadtest", *words)
    assert f"histories in {folder / 'run'}" in reported
    return folder / "run", broker.data_dir


def test_the_load_test_loads_a_broker(loaded: tuple[Path, Path]) -> None:
    run, _ = loaded
    assert (run / "locust.html").exists()
    assert (run / "run.json").exists()
    acknowledged = [file for file in (run / "sends").rglob("*") if file.is_file()]
    assert sum(file.stat().st_size for file in acknowledged) > 0


def test_the_judge_judges_it(loaded: tuple[Path, Path], of_extra: Environments, tmp_path: Path) -> None:
    try:
        java = java_home(tmp_path / "java")
    except NoJava as reason:
        pytest.skip(f"no Java: {reason}")
    run, log_dir = loaded
    words = ("judge", "--history", str(run), "--segments", str(log_dir), "--report", str(tmp_path / "a.html"))
    environment = of_extra("judge")
    reported = done(environment, tmp_path, *words, JAVA_HOME=java)
    assert "CLEAN: no anomaly" in reported.splitlines()[-1]
    assert "clean" in (tmp_path / "a.html").read_text().lower()
    assert list(environment.rglob("site-packages/.cache")) == [], "root may have installed it for others"


def test_the_registry_parses_all_formats(of_extra: Environments, tmp_path: Path) -> None:
    schemas = {"AVRO": ORDER, "JSON": JSON_SCHEMA, "PROTOBUF": PROTOBUF}
    with running(tmp_path, of_extra("registry"), LISTEN) as broker:
        for kind, text in schemas.items():
            versions = f"{url_of(broker)}/subjects/{kind}/versions"
            code, answer = ask(versions, {"schema": text, "schemaType": kind})
            assert code == 200, answer
            assert ask(f"{versions}/1")[1]["id"] == answer["id"]
            assert ask(versions, {"schema": "{", "schemaType": kind})[0] == 422


def test_a_backup_in_a_bucket_is_restored(of_extra: Environments, tmp_path: Path) -> None:
    environment, place = of_extra("s3"), "s3://backups/kbroker"
    with s3_server() as endpoint, running(tmp_path, environment) as broker:
        at = ("-b", broker.bootstrap)
        (tmp_path / "records").write_text("first\nsecond\n")
        done(environment, tmp_path, "topics", "create", "orders", *at)
        done(environment, tmp_path, "produce", "orders", "records", *at)
        store = store_settings(endpoint)
        done(environment, tmp_path, "backup", place, *at, **store)
        done(environment, tmp_path, "backups", "verify", place, **store)
        done(environment, tmp_path, "restore", place, str(tmp_path / "restored"), **store)
    restored = sum(file.stat().st_size for file in (tmp_path / "restored").rglob("orders-0/*.log"))
    assert restored == (broker.data_dir / "orders-0" / f"{0:020}.log").stat().st_size > 0


def test_without_an_extra_its_name_is_the_answer(of_extra: Environments, tmp_path: Path) -> None:
    """The environment of one extra lacks the packages of the others."""
    environment = of_extra("s3")
    for words, extra in (
        (("loadtest", "plan"), "loadtest"),
        (("judge", "--history", "run"), "judge"),
    ):
        ended = command(environment, tmp_path, *words)
        assert ended.returncode == 2, ended.stdout
        (line,) = ended.stdout.splitlines()
        assert line.endswith(f"is not installed; try: pip install 'kbroker[{extra}]'")
    ended = command(of_extra("registry"), tmp_path, "backups", "list", "s3://backups/kbroker")
    assert ended.returncode == 2
    assert "pip install 'kbroker[s3]'" in ended.stdout
