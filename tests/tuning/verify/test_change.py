import os
from dataclasses import replace
from pathlib import Path

import pytest

from kbroker.config.broker import BROKER, BrokerConfig
from tests.tuning.fakes import DISK, MOUNT, FakeRoots, GiB, carrying, on, situation
from tests.tuning.verify.samples import QUEUE
from tuning.finding import Means
from tuning.host.processors import Processors
from tuning.situation import Situation
from tuning.verify.carried import CARRIED, NOT_SHOWN, baseline
from tuning.verify.change import NO_ROOT, Choice, WrongTry, choose


def wrong_host(tmp_path: Path) -> Situation:
    """Syncs by count, a queue with tiny read-ahead, swap, and a mount without barriers."""
    base = situation(tmp_path)
    FakeRoots(tmp_path).sys(QUEUE, "16\n")
    config = BrokerConfig({**base.config.static, "log.flush.interval.messages": "1"})
    wrong = on(
        base,
        memory=replace(base.host.memory, swap_bytes=GiB),
        disks=(replace(DISK, read_ahead_kb=16),),
        mounts=(replace(MOUNT, options=frozenset({"nobarrier"})),),
    )
    return replace(wrong, config=config)


def test_advice_that_a_load_can_show_is_tried_and_the_rest_says_why_not(tmp_path: Path) -> None:
    choice = choose(wrong_host(tmp_path))
    assert [change.label for change in choice.changes] == [
        f"/sys/{QUEUE}=128",
        "log.flush.interval.messages=9223372036854775807",
    ]
    why = {each.what: each.why for each in choice.omitted}
    assert "memory is scarce" in why["vm.swappiness"]
    assert why["/data: barriers"] == "it is changed by hand"
    assert all(change.why for change in choice.changes)


def test_without_root_the_host_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = wrong_host(tmp_path)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    choice = choose(base)
    assert not any(change.on_host for change in choice.changes)
    assert [each.what for each in choice.omitted if each.why == NO_ROOT] == [f"/sys/{QUEUE}=128"]


def test_a_host_without_advice_gets_the_next_number_of_processes(tmp_path: Path) -> None:
    base = situation(tmp_path)
    assert [change.label for change in choose(base).changes] == ["num.network.threads=5", "num.io.threads=5"]
    assert choose(on(base, processors=Processors(4, None, "performance", "tsc", 1))).changes == ()


def test_only_named_changes_are_tried(tmp_path: Path) -> None:
    base = wrong_host(tmp_path)
    named = ("num.io.threads=3", "vm.swappiness=1", f"/sys/{QUEUE}=1024")
    choice = choose(base, named)
    assert [change.label for change in choice.changes] == list(named)
    assert [change.remedy.means for change in choice.changes] == [Means.PROPERTY, Means.SYSCTL, Means.SYSFS]
    assert [change.remedy.old for change in choice.changes] == ["4", "60", "16"]
    assert choice.omitted == ()


def test_one_of_a_pair_goes_back_by_the_other(tmp_path: Path) -> None:
    (change,) = choose(situation(tmp_path), ("vm.dirty_bytes=1000000000",)).changes
    assert change.remedy.undo == "sysctl -w vm.dirty_ratio=20"
    (change,) = choose(situation(tmp_path), ("vm.dirty_ratio=5",)).changes
    assert change.remedy.undo == "sysctl -w vm.dirty_ratio=20"


@pytest.mark.parametrize(
    ("pair", "text"),
    [
        ("num.io.threads", "is not key=value"),
        ("=3", "is not key=value"),
        ("num.io.threads=none", "num.io.threads"),
        ("num.io.threads=4", "is 4 already"),
        ("listeners=PLAINTEXT://:1", "makes no difference"),
        ("kernel.panic=1", "is no setting of the broker"),
        ("vm.../../etc/passwd=1", "is no setting of the broker"),
        ("vm.no_such=1", "cannot be read"),
        ("/sys/power/state=mem", "is no setting of the broker"),
        ("/sys/block/../../etc/queue/passwd=1", "is no setting of the broker"),
        ("/sys/block/none/queue/read_ahead_kb=1", "cannot be read"),
    ],
)
def test_a_wrong_try_says_what_is_wrong(tmp_path: Path, pair: str, text: str) -> None:
    with pytest.raises(WrongTry, match=text):
        choose(situation(tmp_path), (pair,))


def test_two_values_of_one_key_are_refused(tmp_path: Path) -> None:
    with pytest.raises(WrongTry, match="two values"):
        choose(situation(tmp_path), ("num.io.threads=2", "num.io.threads=3"))


def test_a_choice_without_the_host_says_so(tmp_path: Path) -> None:
    choice = choose(wrong_host(tmp_path)).without_host("nobody said yes")
    assert [change.on_host for change in choice.changes] == [False]
    assert ("nobody said yes", f"/sys/{QUEUE}=128") in [(each.why, each.what) for each in choice.omitted]
    assert Choice(()).without_host("x") == Choice(())


def test_turns_take_the_users_settings_of_speed_alone(tmp_path: Path) -> None:
    config = BrokerConfig({"listeners": "PLAINTEXT://:9", "num.io.threads": "3", "log.retention.ms": "5"})
    base = replace(situation(tmp_path), config=config)
    assert baseline(base) == {"num.io.threads": "3"}
    assert baseline(carrying(base, durable=True))["kbroker.write.caching"] == "false"


def test_every_carried_setting_exists_and_every_reason_has_a_target() -> None:
    assert all(key in BROKER for key in CARRIED)
    assert sorted(CARRIED) == list(CARRIED)
    assert all(key in BROKER or key.startswith(("vm.", "net.", "fs.")) for key in NOT_SHOWN)
