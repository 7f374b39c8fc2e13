"""Which topic takes dead letters, and what is written to it."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from kbroker.config.alter import Alteration, Op
from kbroker.control import log_openings
from kbroker.control.changes import log_closings
from kbroker.control.changes.config_change import alter
from kbroker.control.changes.topic_change import create_topics
from kbroker.control.groups.settings import GroupOverrides
from kbroker.control.metadata.catalogue import Partition
from kbroker.control.metadata.config_resource import BROKER, TOPIC
from kbroker.control.metadata.topic_plan import NewTopic
from kbroker.control.share.dead_letter_counts import DeadLetterCounts
from kbroker.control.share.dead_letters import AUTO_CREATE, COPY, ENABLE, PREFIX, DeadLetters
from kbroker.control.share.dead_offsets import REJECTED, Dead
from kbroker.control.share.letters import Origin, batches, letters
from kbroker.control.share.state_shard import ShareKey
from kbroker.ipc.layout import Slot
from kbroker.metrics.slots import bind
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.records import Record, read_all
from tests.control.fakes import World, world

NAME = "errors.deadletterqueue.topic.name"


class Scene:
    """A broker with ten records in orders-2, a group, and what was appended: (topic, partition,
    records)."""

    def __init__(self, made: World) -> None:
        self.made = made
        self.broker = made.broker
        self.overrides = GroupOverrides()
        self.settings: dict[str, str] = {}
        self.appended: list[tuple[str, int, list[Record]]] = []
        self.failure: KafkaError | None = None
        self.counts = DeadLetterCounts(self.broker.metrics)
        self.letters = DeadLetters(self.broker, self.overrides, self.append, self.counts)
        self.create("orders", 3)
        self.orders = self.broker.catalogue.topics["orders"]
        for number in range(0, 10, 5):
            records = [(b"k", b"%d" % each, (("h", b"1"),), 5) for each in range(number, number + 5)]
            made.worker.append(self.orders.partitions[2], *records)

    async def append(self, partition: Partition, batch: bytes, *, timeout_ms: int) -> int:
        assert timeout_ms > 0
        if self.failure is not None:
            raise self.failure
        self.appended.append((partition.topic, partition.index, list(read_all(batch))))
        return 0

    def create(self, name: str, partitions: int, **configs: str) -> None:
        spec = NewTopic(
            name, partitions, configs={key.replace("_", "."): each for key, each in configs.items()}
        )
        asyncio.run(create_topics(self.broker, [spec]))

    def create_dead_letter_topic(self, name: str = "dlq.team", **configs: str) -> None:
        self.create(name, 2, errors_deadletterqueue_group_enable="true", **configs)

    def configure(self, name: str = "dlq.team", **more: str) -> None:
        self.overrides.put("team", {NAME: name, **more})

    def alter(self, kind: int, name: str, key: str, value: str) -> None:
        asyncio.run(alter(self.broker, kind, name, [Alteration(key, Op.SET, value)], validate_only=False))

    def write(self, first: int, last: int) -> None:
        key = ShareKey("team", self.orders.topic_id, 2)
        asyncio.run(self.letters.write(key, Dead(first, last, 1, REJECTED)))

    def unusable(self) -> int:
        """Failures that /metrics shows."""
        number = bind("kbroker_dead_letter_failures_total", reason="unusable_topic")
        return self.broker.metrics.words[number]

    def offsets(self) -> list[int]:
        """Of the originals that have letters."""
        return [
            int(dict(record.headers)["__dlq.errors.offset"] or b"")
            for _, _, records in self.appended
            for record in records
        ]


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with world(tmp_path) as made:
        yield Scene(made)


def test_letters_go_to_the_partition_with_the_number_of_the_originals(scene: Scene) -> None:
    scene.create_dead_letter_topic()
    scene.configure()
    assert scene.letters.are_written_for("team")
    scene.write(3, 5)
    ((topic, partition, records),) = scene.appended
    assert (topic, partition) == ("dlq.team", 0)  # 2 of 2 partitions
    assert scene.counts.written_of("team") == {"orders": 3}
    assert scene.offsets() == [3, 4, 5]
    assert {(record.key, record.value) for record in records} == {(None, None)}
    assert {dict(record.headers)["__dlq.errors.topic"] for record in records} == {b"orders"}


def test_a_group_without_the_setting_has_none(scene: Scene) -> None:
    assert not scene.letters.are_written_for("team")
    scene.write(0, 1)
    assert scene.appended == []


def test_originals_are_copied_when_the_group_wants_it(scene: Scene) -> None:
    scene.create_dead_letter_topic()
    scene.configure(**{COPY: "true"})
    scene.write(3, 6)
    copied = [record for _, _, records in scene.appended for record in records]
    assert [(each.key, each.value, each.headers[0]) for each in copied] == [
        (b"k", b"%d" % offset, ("h", b"1")) for offset in range(3, 7)
    ]
    assert scene.offsets() == [3, 4, 5, 6]


def test_a_record_that_is_gone_from_the_log_gets_a_letter_without_a_copy(scene: Scene) -> None:
    scene.create_dead_letter_topic()
    scene.configure(**{COPY: "true"})
    scene.made.shared.slots[scene.orders.partitions[2].slot, Slot.LOG_START] = 5
    scene.write(3, 11)
    values = [record.value for _, _, records in scene.appended for record in records]
    assert values == [None, None, b"5", b"6", b"7", b"8", b"9", None, None]
    assert scene.offsets() == list(range(3, 12))


def test_a_long_range_is_written_in_pieces(scene: Scene) -> None:
    scene.create_dead_letter_topic(max_message_bytes="700")
    scene.configure()
    scene.write(0, 2499)
    assert scene.offsets() == list(range(2500))
    assert max(len(records) for _, _, records in scene.appended) < 5


@pytest.mark.parametrize(
    ("name", "configs", "why"),
    [
        ("other", {}, f"{PREFIX} is 'dlq.'"),
        ("dlq.none", {}, "there is no such topic"),
        ("dlq.no topic", {}, "its name is not valid"),
        ("dlq.team", {"errors_deadletterqueue_group_enable": "false"}, f"{ENABLE} of the topic is false"),
        ("dlq.team", {"cleanup_policy": "compact"}, "it is compacted"),
    ],
)
def test_a_topic_that_may_not_be_used_is_named_once(
    scene: Scene, caplog: pytest.LogCaptureFixture, name: str, configs: dict[str, str], why: str
) -> None:
    scene.create("other", 1, errors_deadletterqueue_group_enable="true")
    scene.create("dlq.team", 1, **{"errors_deadletterqueue_group_enable": "true", **configs})
    scene.configure(name)
    scene.write(0, 0)
    scene.write(1, 1)
    assert scene.appended == []
    assert (scene.counts.written_of("team"), scene.unusable()) == ({}, 2)
    (line,) = [each for each in caplog.messages if "has no dead letters" in each]
    assert line.startswith(f"group team has no dead letters: {name} is not used")
    assert why in line


def test_it_is_used_as_soon_as_the_settings_allow_it(scene: Scene) -> None:
    scene.create("letters", 1)
    scene.configure("letters")
    scene.write(0, 0)
    scene.alter(BROKER, "", PREFIX, "")
    scene.write(1, 1)
    scene.alter(TOPIC, "letters", ENABLE, "true")
    scene.write(2, 2)
    assert scene.offsets() == [2]


def test_a_missing_topic_is_created_when_the_broker_may(scene: Scene) -> None:
    scene.alter(BROKER, "", AUTO_CREATE, "true")
    scene.configure("dlq.new")
    scene.write(0, 0)
    scene.write(1, 1)
    assert scene.offsets() == [0, 1]
    assert scene.broker.override(TOPIC, "dlq.new") == {ENABLE: "true", "message.timestamp.type": "CreateTime"}


def test_a_new_topic_takes_no_letters_before_its_logs_are_open(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_openings, "MAX_AWAITED", 0)
    scene.alter(BROKER, "", AUTO_CREATE, "true")
    scene.configure()
    opened: list[bool] = []
    append = scene.append

    async def append_to_it(partition: Partition, batch: bytes, *, timeout_ms: int) -> int:
        opened.append(not scene.broker.log_openings.pending(partition.topic))
        return await append(partition, batch, timeout_ms=timeout_ms)

    scene.letters = DeadLetters(scene.broker, scene.overrides, append_to_it, scene.counts)
    scene.write(3, 3)
    assert (scene.offsets(), opened) == ([3], [True])


def test_a_topic_that_is_still_being_deleted_is_an_error_that_may_be_temporary(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An IO worker hangs: the letters are written later."""
    monkeypatch.setattr(log_closings, "CLOSE_S", 0.01)
    scene.alter(BROKER, "", AUTO_CREATE, "true")
    scene.configure()
    scene.broker.closing.begin(["dlq.team"])
    with pytest.raises(KafkaError, match="marked for deletion"):
        scene.write(3, 3)
    assert scene.unusable() == 0
    scene.broker.closing.end(["dlq.team"])
    scene.write(3, 3)
    assert scene.offsets() == [3]


def test_a_name_that_collides_is_not_created(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    scene.alter(BROKER, "", AUTO_CREATE, "true")
    scene.create("dlq_new", 1)
    scene.configure("dlq.new")
    scene.write(0, 0)
    assert scene.appended == []
    assert "collides" in caplog.text


def test_letters_that_cannot_be_written_are_an_error(scene: Scene) -> None:
    scene.create_dead_letter_topic()
    scene.configure()
    scene.failure = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
    with pytest.raises(KafkaError, match="KAFKA_STORAGE_ERROR"):
        scene.write(0, 0)


def test_a_letter_larger_than_its_topic_allows_is_an_error_that_may_be_temporary(scene: Scene) -> None:
    scene.create_dead_letter_topic(max_message_bytes="10")
    scene.configure()
    with pytest.raises(KafkaError, match=r"MESSAGE_TOO_LARGE: a letter of \d+ bytes .* of dlq.team, 10$"):
        scene.write(3, 3)
    assert (scene.appended, scene.unusable()) == ([], 0)
    scene.alter(TOPIC, "dlq.team", "max.message.bytes", "1000")
    scene.write(3, 3)
    assert scene.offsets() == [3]


def test_no_letter_is_written_again_and_again_while_a_later_one_is_too_large(scene: Scene) -> None:
    """The last offset has a digit more. Its letter is in a later piece."""
    dead = Dead(9999, 9999, 1, REJECTED)
    (fits,) = batches(letters(Origin("team", "orders", 2), dead, 9999, 9999, {}, 0, 0), 0)
    scene.create_dead_letter_topic(max_message_bytes=str(len(fits)))
    scene.configure()
    with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
        scene.write(9000, 10_000)
    assert scene.appended == []
    scene.write(9000, 9999)
    assert scene.offsets() == list(range(9000, 10_000))
