"""The end of a move leaves what is not its own."""

from types import SimpleNamespace
from typing import Any

import pytest

from kbroker.cli.mirror import finish
from kbroker.cli.mirror.engine import HEARTBEATS, OFFSETS_TOPIC


@pytest.mark.parametrize(
    ("records", "expected"),
    [(0, {OFFSETS_TOPIC, HEARTBEATS}), (5, {OFFSETS_TOPIC})],
    ids=["own", "of others"],
)
def test_a_topic_heartbeats_with_records_is_kept(
    monkeypatch: pytest.MonkeyPatch, records: int, expected: set[str]
) -> None:
    """MirrorMaker creates it if it is missing, and writes nothing to it."""
    deleted: set[str] = set()
    topics = {name: SimpleNamespace(partitions=[0]) for name in ("orders", OFFSETS_TOPIC, HEARTBEATS)}

    def delete(names: list[str], request_timeout: float) -> dict[str, Any]:
        deleted.update(names)
        return {}

    admin = SimpleNamespace(list_topics=lambda timeout: SimpleNamespace(topics=topics), delete_topics=delete)
    target: Any = SimpleNamespace(admin=lambda: admin, timeout_s=1.0)
    monkeypatch.setattr(finish, "latest", lambda target, admin, there: dict.fromkeys(there, records))
    finish.remove_own_topics(target)
    assert deleted == expected
