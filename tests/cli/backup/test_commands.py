"""The backup command finds its point in time at once, and copies with low priority."""

from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.cli.backup.commands import backup
from kbroker.cli.backup.cut import Cut
from kbroker.cli.failures import CommandFailed


def test_the_point_in_time_is_found_before_the_priority_is_lowered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that waits for its turn sees a transaction end at each of its attempts."""
    steps: list[str] = []

    def step(name: str, result: object = None) -> Any:
        def taken(*_: object, **__: object) -> object:
            steps.append(name)
            return result

        return taken

    def take(*_: object) -> None:
        steps.append("copy")
        raise CommandFailed("far enough")

    monkeypatch.setattr("kbroker.cli.backup.place.at", step("open"))
    monkeypatch.setattr("kbroker.cli.backup.cut.take_cut", step("cut", Cut(0, {}, {}, "")))
    folders = SimpleNamespace(log_dirs=[], leaders={})
    monkeypatch.setattr("kbroker.cli.backup.folders.folders_of", step("folders", folders))
    monkeypatch.setattr("kbroker.cli.backup.taking.take", take)
    monkeypatch.setattr("os.nice", step("lower the priority"))
    arguments: dict[str, Any] = {"dest": "backups", "link": False, "json": True}
    with pytest.raises(CommandFailed, match="far enough"):
        backup(bootstrap="127.0.0.1:1", command_config=None, timeout_s=1.0, **arguments)
    assert steps == ["open", "cut", "folders", "lower the priority", "copy"]
