"""A cleaner thread and what goes wrong while it cleans."""

import errno
from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.cleaner import worker
from kbroker.cleaner.worker import CleanerThread
from kbroker.ipc.log_dir_errors import LogDirErrors
from kbroker.ipc.messages import CleanableLog
from kbroker.ipc.shared import Shared, Sizes


class Failing:
    """A LogCleaner whose disk answers with an error."""

    def __init__(self, number: int) -> None:
        self.number = number

    def clean(self, *_: Any) -> None:
        raise OSError(self.number, "read")


@pytest.mark.parametrize(("number", "offline"), [(errno.EIO, ("/b",)), (errno.ENOSPC, ())])
def test_a_disk_that_can_not_be_read_takes_its_log_dir_offline(
    number: int, offline: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = Shared(Sizes(1, 1, 8, 16, 1 << 16, log_dirs=2))
    job = SimpleNamespace(folder="/b/topic-0")
    monkeypatch.setattr(worker, "Caller", lambda *_: SimpleNamespace(ask=lambda *_: job))
    failed: list[CleanableLog] = []
    state = SimpleNamespace(failed=lambda one, for_good: failed.append(one), stop=None)
    context = SimpleNamespace(
        shared=shared,
        control_sockets=SimpleNamespace(connector=None),
        config=SimpleNamespace(log_dirs=["/a", "/b"]),
    )
    thread = CleanerThread(0, context, state)
    monkeypatch.setattr(thread, "_log_cleaner", lambda: Failing(number))
    one = CleanableLog(0, 1, 1.0, True)
    assert thread._clean(one) is None
    assert failed == [one]
    assert LogDirErrors(["/a", "/b"], shared).failed == offline
