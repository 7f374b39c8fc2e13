"""MirrorMaker's positions and what is left to copy."""

import json

import pytest

from kbroker.cli.mirror import positions
from kbroker.cli.mirror.positions import left_to_copy, parse_position

A, B = ("a", 0), ("b", 1)


def key(topic: object = "orders", partition: object = 3, connector: str = "MirrorSourceConnector") -> bytes:
    return json.dumps([connector, {"cluster": "source", "topic": topic, "partition": partition}]).encode()


def test_the_next_offset_follows_the_copied_one() -> None:
    assert parse_position(key(), b'{"offset": 41}') == (("orders", 3), 42)


@pytest.mark.parametrize(
    ("found", "value"),
    [
        (None, b"{}"),
        (key(), None),  # MirrorMaker removes the position of a partition
        (key(connector="MirrorCheckpointConnector"), b'{"offset": 41}'),
        (b"not json", b"{}"),
        (b"[1]", b"{}"),
        (key(partition=None), b'{"offset": 41}'),
        (key(), b"{}"),
        (key(), b"[]"),
        (key(), b'{"offset": Infinity}'),
        (key(), b"[" * 100_000),
        (b"[" * 100_000, b"{}"),
    ],
)
def test_other_records_are_no_positions(found: bytes | None, value: bytes | None) -> None:
    assert parse_position(found, value) is None


def test_offsets_above_the_position_and_the_start_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def without_records(source: object, tails: list[object], ends: object, left: object) -> list[object]:
        asked.extend(tails)
        return [B]  # only transaction markers

    monkeypatch.setattr(positions, "_without_records", without_records)
    ends = {A: 100, B: 100, ("c", 0): 100, ("d", 0): 50}
    starts = {A: 0, B: 90, ("c", 0): 0, ("d", 0): 50}
    left = left_to_copy(None, starts, ends, {A: 40, B: 30, ("c", 0): 100})  # type: ignore[arg-type]
    assert left == {A: 60}
    assert asked == [B]  # a partition with more offsets left is not read
