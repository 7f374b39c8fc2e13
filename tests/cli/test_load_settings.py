"""A load test logs in with the file of any other command; a wrong password is one line, at once."""

import subprocess
import sys
from pathlib import Path

import pytest

from kbroker.cli.load_settings import read
from loadtest.exit_codes import NO_BROKER
from loadtest.run import load_run
from loadtest.settings import WrongSetting
from tests.cli.plain_login import PLAIN_ONLY, client
from tests.conftest import BrokerFactory

FEW = ["--idempotent=0", "--transactional=0", "--copiers=0", "--consumers=1", "--sharers=1", "--rate=200"]


def test_a_file_that_cannot_be_read_is_wrong_use(tmp_path: Path) -> None:
    with pytest.raises(WrongSetting, match="none"):
        read(tmp_path / "none.properties", "127.0.0.1:1", False)


def test_java_needs_certificate_and_key_in_one_file(tmp_path: Path) -> None:
    for name in ("c.pem", "k.pem", "client.properties"):
        (tmp_path / name).write_text("")
    file = tmp_path / "client.properties"
    file.write_text(
        f"security.protocol=SSL\nssl.certificate.location={tmp_path}/c.pem\nssl.key.location={tmp_path}/k.pem\n"
    )
    with pytest.raises(WrongSetting, match="one PEM file"):
        read(file, "127.0.0.1:1", True)


def loadtest(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kbroker", "loadtest", "run", "--seconds", "15", *FEW, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.compat
@pytest.mark.slow
def test_a_load_logs_in_and_keeps_the_password(broker_factory: BrokerFactory, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    target = ("--target", broker_factory(PLAIN_ONLY).bootstrap, "--folder", folder, "--command-config")
    refused = loadtest(*target, client(tmp_path, "wrong"))
    assert refused.returncode == NO_BROKER
    assert refused.stderr.startswith("kbroker loadtest: the broker refuses these credentials: ")
    done = loadtest(*target, client(tmp_path, "secret"))
    assert done.returncode == 0, done.stderr
    run = load_run(folder)
    assert run.drained
    assert sum(ends.high_watermark for ends in run.ends[run.topics[0].name].values()) > 0
    for file in (each for each in folder.rglob("*") if each.is_file()):
        assert b'"secret"' not in file.read_bytes(), file
