"""Committed offsets are moved to the next record to read; no record is skipped."""

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given

from kbroker.cli.group_description import Group
from kbroker.cli.mirror.group_offsets import GroupOffsets, translate
from tests.cli.mirror.readings import killed_copies, reading

PLACE = ("orders", 0)


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (0, 0),
        (3, 10),  # in a gap: the next record counts
        (5, 10),
        (6, 11),
        (7, 20),  # at the end: the target's end, after its markers
    ],
)
def test_an_offset_moves_to_the_same_record(offset: int, expected: int) -> None:
    target = reading([1, 2, 3], [0, 10, 11])
    target.end = 20
    assert translate(offset, reading([1, 2, 3], [0, 5, 6]), target) == expected


def test_records_that_expired_at_the_source_do_not_shift_offsets() -> None:
    source, target = reading([2, 3], [7, 8]), reading([1, 2, 3], [0, 1, 2])
    assert [translate(offset, source, target) for offset in (3, 7, 8, 9)] == [1, 1, 2, 3]


def test_an_offset_in_compacted_records_moves_to_the_next_kept_one() -> None:
    source, target = reading([1, 2, 3, 4]), reading([1, 4], [0, 3])
    assert [translate(offset, source, target) for offset in range(5)] == [0, 3, 3, 3, 4]
    assert translate(1, source, reading([1], [0])) == 1


@given(killed_copies())
def test_a_group_reads_every_record_that_it_had_not_read(copy: tuple[list[int], list[int], int]) -> None:
    source, target, repeated = copy
    for offset in range(len(source) + 1):
        moved = translate(offset, reading(source), reading(target))
        rest = iter(target[moved:])
        assert all(record in rest for record in source[offset:])
        if not repeated:
            assert moved == offset


def group(name: str, state: str = "Empty", **offsets: int) -> Group:
    return Group(name, state, "classic", "", 1, [], {PLACE: offsets["offset"]} if offsets else {})


class Target:
    """Accepts commits of groups and keeps them."""

    timeout_s = 1.0

    def __init__(self) -> None:
        self.committed: dict[str, dict[tuple[str, int], int]] = {}

    def admin(self) -> Any:
        return SimpleNamespace(alter_consumer_group_offsets=self._alter)

    def _alter(self, requests: list[Any], request_timeout: float) -> dict[str, Any]:
        (one,) = requests
        places = one.topic_partitions
        self.committed[one.group_id] = {(place.topic, place.partition): place.offset for place in places}
        return {one.group_id: SimpleNamespace(result=lambda: SimpleNamespace(topic_partitions=places))}


def test_only_groups_without_members_at_the_target_get_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    at_target = {
        "done": group("done", offset=2),
        "works": group("works", "Stable", offset=1),
        "new": group("new", "Dead"),
    }
    monkeypatch.setattr(
        "kbroker.cli.mirror.group_offsets.read_group", lambda target, admin, name: at_target[name]
    )
    groups = GroupOffsets({name: group(name, offset=2) for name in ("done", "works", "new")})
    groups.groups["works"].state = "Stable"
    groups.translate(PLACE, reading([1, 2, 3]), reading([1, 2, 3]))
    target: Any = Target()
    assert groups.active == ["works"]
    assert groups.commit(target) == [
        "group works already has members at the target: its offsets stay unchanged"
    ]
    assert target.committed == {"new": {PLACE: 2}}
