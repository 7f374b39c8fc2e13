"""The settings decide how much memory the processes share."""

import pytest

from kbroker.config.broker import BrokerConfig
from kbroker.config.setting import ConfigError
from kbroker.supervisor import shared_memory as module
from kbroker.supervisor.shared_memory import SIZES, shared_memory

SETTINGS = {
    "kbroker.max.partitions": "100",
    "kbroker.ring.entries": "1024",
    "num.network.threads": "2",
    "num.io.threads": "3",
}


def test_tables_have_the_sizes_of_the_settings() -> None:
    config = BrokerConfig(SETTINGS)
    shared = shared_memory(config)
    assert len(shared.slots) == 100
    assert len(shared.processes) == 2 + 1 + 3 + 2  # network, control, io; http and cleaner
    assert [arena.size for arena in shared.arenas] == [config.get_int("kbroker.arena.bytes")] * 3


def test_memory_that_the_host_has_not_is_a_fault_of_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(module, "Shared", refuse)
    with pytest.raises(ConfigError, match=r"cannot be allocated .*Cannot allocate memory") as refused:
        shared_memory(BrokerConfig(SETTINGS))
    assert all(name in str(refused.value) for name in SIZES)
    assert "num.io.threads=3" in str(refused.value)
