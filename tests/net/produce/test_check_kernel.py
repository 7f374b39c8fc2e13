"""The kernel's check of one batch: an error, none, or that Python must check it."""

import struct

import pytest

from kbroker.ipc.layout import Slot, SlotFlag, SlotState
from kbroker.kernels.crc32c import crc32c
from kbroker.metrics import layout as ml
from kbroker.net.produce.check_kernel import FOREVER, NEEDS_PYTHON, REFUSED, late_check_result
from kbroker.net.rows import Context, Result
from kbroker.net.rows.connection_kernel import CODEC_WEIGHT, GZIP_WEIGHT, MAX_TURN_BYTES
from kbroker.protocol import batch_layout as rb
from kbroker.protocol.compression import Codec
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.records import build_batch
from tests.net.produce.produce_cases import CASES, resealed
from tests.net.tables import new_tables

NOW = 1_700_000_000_000
SLOT, RESULT, GENERATION, AT = 5, 3, 9, 4096
LOG_START = 77
OF_THE_REQUEST = {  # found before the check of a batch
    "null records", "no batch", "a partial batch", "two batches", "magic 1", "magic 3", "zstd before v7",
    "trailing bytes shorter than a header", "trailing bytes that are no batch",
    "transactional without id",
}  # fmt: skip


class Scene:
    """A partition that keeps what producers choose, and one produced batch."""

    def __init__(self) -> None:
        self.tables = new_tables()
        self.tables.words[Context.NOW_MS] = NOW
        self.slot = self.tables.shared.slots[SLOT]
        self.slot[Slot.STATE] = SlotState.ONLINE
        self.slot[Slot.GENERATION] = GENERATION
        self.slot[Slot.COMPRESSION] = -1
        self.slot[Slot.MAX_MESSAGE_BYTES] = 1 << 20
        self.slot[Slot.TIMESTAMP_BEFORE_MAX_MS] = self.slot[Slot.TIMESTAMP_AFTER_MAX_MS] = FOREVER
        self.result = self.tables.results[RESULT]
        self.length = 0

    def error(self, data: bytes) -> int:
        self.length = len(data)
        self.tables.arena_bytes[AT : AT + len(data)] = data
        self.result[[Result.ADDRESS, Result.LENGTH, Result.SLOT]] = AT, len(data), SLOT
        self.result[[Result.GENERATION, Result.LOG_START]] = GENERATION, LOG_START
        return late_check_result(self.tables.address, RESULT)

    @property
    def kept(self) -> bytes:
        """The batch as it is now."""
        return bytes(self.tables.arena_bytes[AT : AT + self.length])


@pytest.fixture
def scene() -> Scene:
    return Scene()


def batch(
    key: bytes | None = b"k", stamps: tuple[int, ...] = (NOW,), codec: Codec = Codec.NONE, **how: object
) -> bytes:
    records = [(key, b"value", (("h", b"x"),), stamp) for stamp in stamps]
    return build_batch(records, codec=codec, **how)


@pytest.mark.parametrize("name", sorted(set(CASES) - OF_THE_REQUEST))
def test_every_error_of_a_batch_has_kafkas_code(scene: Scene, name: str) -> None:
    data, _, code = CASES[name]
    assert data is not None
    assert scene.error(data) == code
    without = (ErrorCode.CORRUPT_MESSAGE, ErrorCode.MESSAGE_TOO_LARGE)
    assert scene.result[Result.LOG_START] == (-1 if code in without else LOG_START)


@pytest.mark.parametrize("codec", list(Codec))
def test_good_batches_of_every_codec_pass_and_are_not_changed(scene: Scene, codec: Codec) -> None:
    data = batch(stamps=(NOW, NOW + 5, NOW - 5), codec=codec)
    assert scene.error(data) == ErrorCode.NONE
    assert scene.kept == data


@pytest.mark.parametrize("codec", list(Codec)[1:])
def test_compressed_records_that_are_damaged_are_pythons(scene: Scene, codec: Codec) -> None:
    data = bytearray(batch(stamps=(NOW,) * 50, codec=codec))
    for at in range(rb.RECORDS, len(data)):
        data[at] ^= 0x55
    sealed = resealed(bytes(data), rb.RECORD_COUNT, ">i", 50)
    assert scene.error(sealed) == NEEDS_PYTHON


def test_a_batch_may_be_as_large_as_the_topic_says(scene: Scene) -> None:
    data = batch()
    rejected = scene.tables.metrics.words[ml.REJECTED_BYTES]
    scene.slot[Slot.MAX_MESSAGE_BYTES] = len(data)
    assert scene.error(data) == ErrorCode.NONE
    assert scene.tables.metrics.words[ml.REJECTED_BYTES] == rejected
    scene.slot[Slot.MAX_MESSAGE_BYTES] = len(data) - 1
    assert scene.error(data) == ErrorCode.MESSAGE_TOO_LARGE
    assert scene.result[Result.LOG_START] == -1
    assert scene.tables.metrics.words[ml.REJECTED_BYTES] == rejected + len(data)


@pytest.mark.parametrize("target", list(Codec))
@pytest.mark.parametrize("codec", list(Codec))
def test_a_batch_of_another_codec_than_the_topics_is_pythons(
    scene: Scene, codec: Codec, target: Codec
) -> None:
    scene.slot[Slot.COMPRESSION] = target
    assert scene.error(batch(codec=codec)) == (ErrorCode.NONE if codec is target else NEEDS_PYTHON)


def test_a_batch_with_the_time_of_its_append_is_pythons(scene: Scene) -> None:
    assert scene.error(batch(log_append_time_ms=NOW)) == NEEDS_PYTHON


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_records_of_compacted_topics_have_keys(scene: Scene, codec: Codec) -> None:
    assert scene.error(batch(None, codec=codec)) == ErrorCode.NONE
    scene.slot[Slot.FLAGS] = SlotFlag.COMPACTED
    assert scene.error(batch(None, codec=codec)) == NEEDS_PYTHON
    assert scene.error(batch(b"", codec=codec)) == ErrorCode.NONE


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_timestamps_lie_between_the_topics_bounds(scene: Scene, codec: Codec) -> None:
    scene.slot[[Slot.TIMESTAMP_BEFORE_MAX_MS, Slot.TIMESTAMP_AFTER_MAX_MS]] = 1000, 50
    expected = {-1000: True, -1001: False, 50: True, 51: False, 0: True}
    for distance, fine in expected.items():
        found = scene.error(batch(stamps=(NOW, NOW + distance), codec=codec))
        assert found == (ErrorCode.NONE if fine else NEEDS_PYTHON), distance
    assert scene.error(batch(stamps=(-1,), codec=codec)) == ErrorCode.NONE, "no timestamp"
    scene.slot[[Slot.TIMESTAMP_BEFORE_MAX_MS, Slot.TIMESTAMP_AFTER_MAX_MS]] = FOREVER, 50
    assert scene.error(batch(stamps=(0,), codec=codec)) == ErrorCode.NONE
    assert scene.error(batch(stamps=(NOW + 51,), codec=codec)) == NEEDS_PYTHON
    scene.slot[[Slot.TIMESTAMP_BEFORE_MAX_MS, Slot.TIMESTAMP_AFTER_MAX_MS]] = 1000, FOREVER
    assert scene.error(batch(stamps=(1 << 50,), codec=codec)) == ErrorCode.NONE
    assert scene.error(batch(stamps=(0,), codec=codec)) == NEEDS_PYTHON
    scene.slot[Slot.FLAGS] = SlotFlag.LOG_APPEND_TIME
    assert scene.error(batch(stamps=(0, 1 << 50), codec=codec)) == ErrorCode.NONE


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.SNAPPY])
@pytest.mark.parametrize("written", [0, NOW + 9])
def test_a_wrong_largest_timestamp_is_put_right(scene: Scene, codec: Codec, written: int) -> None:
    right = batch(stamps=(NOW, NOW + 5), codec=codec)
    assert scene.error(resealed(right, rb.MAX_TIMESTAMP, ">q", written)) == ErrorCode.NONE
    assert scene.kept == right
    (crc,) = struct.unpack_from(">I", scene.kept, rb.CRC)
    assert crc == crc32c(scene.kept[rb.ATTRIBUTES :])


@pytest.mark.parametrize(
    ("state", "code"),
    [
        (SlotState.OFFLINE, ErrorCode.KAFKA_STORAGE_ERROR),
        (SlotState.DELETED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (SlotState.RECOVERING, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_a_partition_that_takes_nothing_now_has_its_error(scene: Scene, state: int, code: ErrorCode) -> None:
    scene.slot[Slot.STATE] = state
    assert scene.error(batch()) == code
    assert scene.result[Result.LOG_START] == -1
    scene.slot[Slot.STATE] = SlotState.ONLINE
    scene.slot[Slot.GENERATION] += 1  # it is another partition's
    assert scene.error(batch()) == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_refused_batch_joins_its_transaction_first(scene: Scene) -> None:
    good = batch(producer=(4, 0, 0), transactional=True)
    assert scene.error(good) == ErrorCode.NONE
    scene.result[Result.ERROR] = 0
    assert scene.error(resealed(good, rb.RECORD_COUNT, ">i", 2)) == REFUSED
    assert scene.result[Result.ERROR] == ErrorCode.INVALID_RECORD
    alone = batch(producer=(4, 0, 0))
    assert scene.error(resealed(alone, rb.RECORD_COUNT, ">i", 2)) == ErrorCode.INVALID_RECORD
    nobodys = resealed(good, rb.PRODUCER_ID, ">q", -1)
    assert scene.error(resealed(nobodys, rb.RECORD_COUNT, ">i", 2)) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(
    ("codec", "weight"), [(Codec.NONE, 0), (Codec.GZIP, GZIP_WEIGHT), (Codec.LZ4, CODEC_WEIGHT)]
)
def test_checked_items_are_counted_as_work(scene: Scene, codec: Codec, weight: int) -> None:
    """The batch, and what it decompresses to."""
    data = batch(stamps=(NOW,) * 100, codec=codec)
    plain = len(batch(stamps=(NOW,) * 100)) - rb.RECORDS
    assert scene.error(data) == ErrorCode.NONE
    assert scene.tables.words[Context.WORK_LEFT] == MAX_TURN_BYTES - len(data) - weight * plain
