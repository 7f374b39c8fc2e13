"""The order in which a cut reads the ends of logs."""

import pytest

from kbroker.cli.backup.cut import take_cut
from kbroker.cli.connection import Connection

TOPICS = ("__consumer_offsets", "__share_group_state", "__transaction_state", "_schemas", "A", "z")


class Admin:
    """An admin client that lists TOPICS, with a partition each."""

    def list_topics(self, timeout: float) -> object:
        found = {name: type("T", (), {"partitions": [0]})() for name in TOPICS}
        return type("M", (), {"topics": found, "cluster_id": "c"})()


def test_states_of_groups_are_read_before_records_and_schemas_after_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else a restored share group would begin after the end of a log and miss its next records."""
    requested: list[set[str]] = []

    def latest(
        broker: object, admin: object, partitions: list[tuple[str, int]]
    ) -> dict[tuple[str, int], int]:
        requested.append({name for name, _ in partitions})
        return dict.fromkeys(partitions, 7)

    broker = Connection("", {}, 1)
    monkeypatch.setattr(broker, "admin", Admin)
    monkeypatch.setattr("kbroker.cli.backup.cut.latest", latest)
    monkeypatch.setattr("kbroker.cli.backup.cut.earliest", lambda *_: {})
    cut = take_cut(broker)
    assert requested == [
        {"__transaction_state"},
        {"__consumer_offsets"},
        {"__share_group_state"},
        {"A", "z"},
        {"_schemas"},
        {"__transaction_state"},
    ]
    assert cut.ends == {(name, 0): 7 for name in TOPICS}
