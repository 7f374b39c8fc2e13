"""The kernels of commits: what of a block they leave, how they split batches, and the answers that
commits outdate."""

from pathlib import Path

import pytest

from kbroker.config.alter import Alteration, Op
from kbroker.control.changes.config_change import alter
from kbroker.control.groups.commit_cache.layout import CacheTables
from kbroker.control.metadata.config_resource import BROKER, TOPIC
from kbroker.control.metadata.topic_name import CONSUMER_OFFSETS
from kbroker.ipc.cached_answers import word_of
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.frame import encode_request
from kbroker.protocol.messages.heartbeat import HeartbeatRequest
from kbroker.protocol.records import Record
from tests.control.groups.commit_scene import GENERATION, GROUP, MEMBER, Scene, commit, learnt, play

LIMIT = "200"
"""Bytes: a batch of one commit, but not of two."""


def commits(count: int) -> list[bytes]:
    return [commit(9, {"a": [(0, offset, "")]}, {}) for offset in range(count)]


@pytest.mark.parametrize("room", [CacheTables.COMMIT_ROOM, CacheTables.RECORD_ROOM])
def test_the_rest_of_a_block_is_left_when_a_table_is_full(tmp_path: Path, room: int) -> None:
    async def test(scene: Scene) -> None:
        await learnt(scene)
        scene.service.commit_cache._rows.words[room] = 2 if room == CacheTables.COMMIT_ROOM else 300
        answers = await scene.send(*commits(5))
        assert scene.left == 3
        assert len(set(answers)) == 1, "all are answered"

    play(tmp_path, test)


def test_heartbeats_and_commits_of_one_block_leave_nothing(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        beat = encode_request(ApiKey.HEARTBEAT, 4, 3, "c", HeartbeatRequest(GROUP, GENERATION, MEMBER))
        await scene.send(beat)
        await learnt(scene)
        await scene.send(beat)
        scene.left = 0
        await scene.send(beat, *commits(2), beat)
        assert scene.left == 0
        await scene.send(beat, commit(9, {"b": [(0, 1, "")]}, {}), *commits(1))
        assert scene.left == 1, "an offset that was never committed"

    play(tmp_path, test)


@pytest.mark.parametrize(
    ("kind", "name", "setting"),
    [(TOPIC, CONSUMER_OFFSETS, "max.message.bytes"), (BROKER, "", "message.max.bytes")],
)
def test_batches_keep_to_the_limit_of_the_topic_as_soon_as_it_changes(
    tmp_path: Path, kind: int, name: str, setting: str
) -> None:
    async def test(scene: Scene) -> None:
        await learnt(scene)
        for limit, batches in ((LIMIT, 3), (None, 1)):
            change = Alteration(setting, Op.DELETE if limit is None else Op.SET, limit)
            await alter(scene.broker, kind, name, [change], False)
            before = len(scene.log.batches)
            await scene.send(*commits(3))
            assert scene.left == 0
            assert len(scene.log.batches) == before + batches

    play(tmp_path, test)


@pytest.mark.parametrize(
    ("error", "outdated"),
    [(None, True), (ErrorCode.REQUEST_TIMED_OUT, True), (ErrorCode.KAFKA_STORAGE_ERROR, False)],
)
def test_cached_answers_of_a_group_are_outdated_once_its_commit_is_in_the_log(
    tmp_path: Path, error: ErrorCode | None, outdated: bool
) -> None:
    async def test(scene: Scene) -> None:
        await learnt(scene)
        versions, word = scene.broker.cached_answers.words, word_of(GROUP)
        before = versions.copy()
        scene.log.hold, scene.log.error = True, error
        scene.start(100, *commits(1))
        assert (versions == before).all()
        scene.log.release()
        assert (versions[word] > before[word]) == outdated
        before[word] = versions[word]
        assert (versions == before).all()

    play(tmp_path, test)


def test_the_records_of_a_commit_have_the_time_of_their_block(tmp_path: Path) -> None:
    async def test(scene: Scene) -> None:
        await learnt(scene)
        began_ms = scene.broker.now_ms()
        await scene.send(*commits(2))
        ended_ms = scene.broker.now_ms()
        first, second = scene.log.records[-2:]
        assert began_ms <= first.timestamp_ms <= ended_ms
        assert second.timestamp_ms == committed_at(second) == first.timestamp_ms

    play(tmp_path, test)


def committed_at(record: Record) -> int:
    """The time in the value of an offset: the last field before its tags."""
    assert record.value is not None
    return int.from_bytes(record.value[14 + 1 : 14 + 9], "big")
