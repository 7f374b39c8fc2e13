"""Committed offsets are moved to the next record to read; no record is skipped."""

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given

from kbroker.cli.failures import CommandFailed
from kbroker.cli.group_description import Group
from kbroker.cli.mirror.group_offsets import GroupOffsets, translate
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
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


class Coordinators:
    """Those of the target: they accept commits of groups and keep them."""

    def __init__(self, code: ErrorCode = ErrorCode.NONE) -> None:
        self.code = code
        self.committed: dict[str, dict[tuple[str, int], tuple[int, str | None]]] = {}

    def __enter__(self) -> "Coordinators":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def ask(self, group_id: str, api: ApiKey, request: OffsetCommitRequest, max_version: int) -> Any:
        assert (api, group_id, max_version) == (ApiKey.OFFSET_COMMIT, request.group_id, 9)
        self.committed[group_id] = {
            (topic.name, each.partition_index): (each.committed_offset, each.committed_metadata)
            for topic in request.topics
            for each in topic.partitions
        }
        answer = OffsetCommitResponsePartition(0, self.code)
        return 1, OffsetCommitResponse(topics=[OffsetCommitResponseTopic(PLACE[0], partitions=[answer])])


@pytest.fixture
def at_target(monkeypatch: pytest.MonkeyPatch) -> dict[str, Group]:
    """The groups that the target has."""
    found = {
        "done": group("done", offset=2),
        "works": group("works", "Stable", offset=1),
        "new": group("new", "Dead"),
    }
    monkeypatch.setattr(
        "kbroker.cli.mirror.group_offsets.read_group", lambda target, admin, name: found[name]
    )
    return found


TARGET: Any = SimpleNamespace(admin=lambda: None)


def test_only_groups_without_members_at_the_target_get_offsets(
    monkeypatch: pytest.MonkeyPatch, at_target: dict[str, Group]
) -> None:
    coordinators = Coordinators()
    monkeypatch.setattr("kbroker.cli.mirror.group_offsets.GroupCoordinators", lambda _: coordinators)
    groups = GroupOffsets({name: group(name, offset=2) for name in at_target})
    groups.groups["elsewhere"] = group("elsewhere")  # its offsets are in topics that stay
    groups.groups["works"].state = "Stable"
    groups.groups["new"].metadata[PLACE] = "AgAAAZq"
    groups.translate(PLACE, reading([1, 2, 3]), reading([1, 2, 3]))
    assert groups.active == ["works"]
    assert groups.commit(TARGET) == [
        "group works already has members at the target: its offsets stay unchanged"
    ]
    assert coordinators.committed == {"new": {PLACE: (2, "AgAAAZq")}}
    assert groups.moved == ["done", "new"]


def test_an_offset_that_is_refused_ends_the_move(
    monkeypatch: pytest.MonkeyPatch, at_target: dict[str, Group]
) -> None:
    coordinators = Coordinators(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    monkeypatch.setattr("kbroker.cli.mirror.group_offsets.GroupCoordinators", lambda _: coordinators)
    groups = GroupOffsets({"new": group("new", offset=2)})
    groups.translate(PLACE, reading([1, 2, 3]), reading([1, 2, 3]))
    with pytest.raises(CommandFailed, match="new: orders: 0"):
        groups.commit(TARGET)
