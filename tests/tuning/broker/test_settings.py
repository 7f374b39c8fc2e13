from dataclasses import replace
from pathlib import Path

from kbroker.config.broker import BrokerConfig
from tests.tuning.fakes import MOUNT, FakeRoots, on, situation
from tuning.broker.settings import findings
from tuning.finding import Severity


def test_log_dirs_of_one_file_system_are_noted(tmp_path: Path) -> None:
    base = on(situation(tmp_path), mounts=(replace(MOUNT, dirs=("/data/a", "/data/b")),))
    (found,) = findings(base)
    assert (found.severity, found.now) == (Severity.NOTE, "/data/a, /data/b")


def test_sites_of_one_file_system_are_serious(tmp_path: Path) -> None:
    base = situation(tmp_path)
    FakeRoots(tmp_path).proc("self/mountinfo", "27 1 254:0 / / rw - ext4 /dev/vda rw\n")
    config = BrokerConfig({"log.dirs": "/none/a,/none/b", "kbroker.replica.sites": "/none/a;/none/b"})
    found = findings(replace(base, config=config))
    assert [each.knob for each in found if each.severity is Severity.SERIOUS] == ["kbroker.replica.sites"]


def test_sites_of_one_file_system_that_is_mounted_twice_are_serious(tmp_path: Path) -> None:
    base = situation(tmp_path)
    mounts = "27 1 254:0 /a /none/a rw - ext4 /dev/vda rw\n28 1 254:0 /b /none/b rw - ext4 /dev/vda rw\n"
    FakeRoots(tmp_path).proc("self/mountinfo", mounts)
    config = BrokerConfig({"log.dirs": "/none/a,/none/b", "kbroker.replica.sites": "/none/a;/none/b"})
    found = findings(replace(base, config=config))
    assert [each.knob for each in found if each.severity is Severity.SERIOUS] == ["kbroker.replica.sites"]


def test_processes_beyond_the_cores_are_advised_against(tmp_path: Path) -> None:
    base = situation(tmp_path)
    few = on(base, processors=replace(base.host.processors, cores=2))
    assert [each.knob for each in findings(few)] == ["num.network.threads"]
    assert findings(base) == []


def test_processes_poll_only_with_cores_of_their_own(tmp_path: Path) -> None:
    base = situation(tmp_path)
    settings = dict(base.config.static) | {"kbroker.busy.poll.io.us": "200"}
    polling = replace(base, config=BrokerConfig(settings))  # 4 network processes and 4 IO workers
    processors = base.host.processors
    assert findings(on(polling, processors=replace(processors, cores=10))) == []
    for few in (replace(processors, cores=9), replace(processors, cores=64, quota_cores=9.5)):
        (found,) = findings(on(polling, processors=few))
        assert (found.knob, found.proposed, found.severity) == (
            "kbroker.busy.poll.io.us",
            "0",
            Severity.ADVICE,
        )
        assert "need 10 cores" in found.why
