"""The measured speeds of a host: in the broker from the file of the tuner's measurement."""

import json
import os
from pathlib import Path

import pytest

from kbroker.http.host_limits import MAX_BYTES, HostLimits
from tests.http.scene import Scene
from tuning.coefficients import Coefficients

SPEEDS = {"disk_write": 578e6, "disk_read": 1.81e9, "loopback": 7.9e9}


def measured(write_rate: float = 578e6) -> Coefficients:
    return Coefficients("a bench", "/data", write_rate, cold_read_rate=1.81e9, loopback_rate=7.9e9)


def test_the_file_of_a_measurement_is_read_and_read_again_when_it_changes(tmp_path: Path) -> None:
    file = tmp_path / "host.json"
    limits = HostLimits(str(file))
    assert limits.speeds() == {}
    measured().save(file)
    assert limits.speeds() == SPEEDS
    assert limits.speeds() is limits.speeds()
    measured(300e6).save(file)
    os.utime(file, ns=(1, 1))
    assert limits.speeds()["disk_write"] == 300e6
    file.unlink()
    assert limits.speeds() == {}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "Expecting"),
        ("[1]", "not a file of `kbroker tune bench`"),
        ("{}", "not a file of `kbroker tune bench`"),
        ("[" * 5000, ""),
        ('{"write_rate": -1}', "write_rate cannot be -1"),
        ('{"write_rate": 1' + "0" * 400 + "}", "too large"),
        ('{"write_rate": true}', "write_rate cannot be True"),
        ('{"write_rate": NaN}', "write_rate cannot be nan"),
        ('{"write_rate": 1, "loopback_rate": Infinity}', "loopback_rate cannot be inf"),
        (" " * (MAX_BYTES + 1), "too large"),
        ("\udcff", "decode"),
    ],
)
def test_a_file_that_cannot_be_used_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str, reason: str
) -> None:
    file = tmp_path / "host.json"
    file.write_bytes(text.encode(errors="surrogateescape"))
    limits = HostLimits(str(file))
    for _ in range(3):
        assert limits.speeds() == {}
    assert [each.getMessage() for each in caplog.records if reason in each.getMessage()] == caplog.messages
    assert len(caplog.messages) == 1
    assert str(file) in caplog.text


def test_a_fifo_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "host.json")
    assert HostLimits(str(tmp_path / "host.json")).speeds() == {}


def test_metrics_show_the_speeds(tmp_path: Path) -> None:
    file = tmp_path / "host.json"
    file.write_text(json.dumps({"write_rate": 578e6, "cold_read_rate": 1.81e9, "loopback_rate": 7.9e9}))
    found = Scene(tmp_path, {"kbroker.host.file": str(file)}).scrape()
    shown = {
        what: found.value("kbroker_host_limit_bytes_per_second", what=what)
        for each in found.labels("kbroker_host_limit_bytes_per_second")
        for what in each.values()
    }
    assert shown == SPEEDS
    (tmp_path / "bare").mkdir()
    assert not Scene(tmp_path / "bare").scrape().labels("kbroker_host_limit_bytes_per_second")
