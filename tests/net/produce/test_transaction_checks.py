"""Transactional batches in the network process: control verifies them, their order is kept,
refusals are returned."""

import struct
import threading
import time
from collections.abc import Iterator
from contextlib import closing

import numpy as np
import pytest

from kbroker.ipc.layout import AppendEntry, Completion, Operation, Slot, SlotFlag
from kbroker.ipc.messages import VerifyTransaction
from kbroker.ipc.ring import ring_length, ring_push
from kbroker.net.produce.transaction_checks import MAX_REFUSED, MAX_TRIES, RETRY_S, LowestSequences
from kbroker.protocol import batch_layout as rb
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.frame import encode_request
from kbroker.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from kbroker.protocol.records import build_batch
from tests.net.doubles import ControlDouble, NetNode, WorkerDouble, ask, read_frame
from tests.net.requests import PRODUCE, TOPIC_ID, now_ms, read_produce

PRODUCER = (77, 3)
LAST_END = 41


class CarefulWorker(WorkerDouble):
    """Answers UNVERIFIED to transactional batches until one has control's consent and LAST_END.
    entries: (operation, base offset in the batch, base sequence) of every append."""

    stubborn = False

    def prepare(self) -> "CarefulWorker":
        self.entries: list[tuple[int, int, int]] = []
        self.open: set[int] = set()
        return self

    def _serve(self, client: int, entry: list[int]) -> None:
        slot, address = entry[AppendEntry.SLOT], entry[AppendEntry.ADDRESS]
        memory = memoryview(self.shared.arenas[client].map)
        (base,) = struct.unpack_from(">q", memory, address)
        (sequence,) = struct.unpack_from(">i", memory, address + rb.BASE_SEQUENCE)
        operation = entry[AppendEntry.OPERATION]
        self.entries.append((operation, base, sequence))
        if slot not in self.open:
            if self.stubborn or operation == Operation.APPEND or base != LAST_END:
                token = entry[AppendEntry.TOKEN]
                line = np.array([token, Completion.UNVERIFIED, LAST_END, -1, 0, slot, 0, 0], np.int64)
                capacity = self.shared.sizes.ring_entries
                assert ring_push(self.shared.completion_ring(client, 0), capacity, line)
                return
            self.open.add(slot)
        super()._serve(client, entry)


class LateWorker(CarefulWorker):
    """Answers its first entry when the second is in the ring, and takes the second when `hold` is
    cleared."""

    def prepare(self) -> "LateWorker":
        super().prepare()
        self.took = threading.Event()
        return self

    def waiting(self) -> int:
        """Entries in the ring."""
        return ring_length(self.shared.append_ring(0, 0))

    def wait_for(self, count: int) -> None:
        deadline = time.monotonic() + 60
        while self.waiting() < count and time.monotonic() < deadline:
            time.sleep(0.002)

    def _serve(self, client: int, entry: list[int]) -> None:
        if not self.entries:
            self.took.set()
            self.wait_for(1)
            self.hold.set()
        super()._serve(client, entry)


class CarefulControl(ControlDouble):
    """Answers VerifyTransaction with `codes` by partition, once `go` is set. heard: a request has
    arrived."""

    def prepare(self) -> "CarefulControl":
        self.verifications: list[VerifyTransaction] = []
        self.codes: dict[int, tuple[int, str | None]] = {}
        self.heard, self.go = threading.Event(), threading.Event()
        self.go.set()
        return self

    def verify(self, request: VerifyTransaction) -> tuple[tuple[int, str | None], ...]:
        self.verifications.append(request)
        self.heard.set()
        assert self.go.wait(60)
        return tuple(self.codes.get(index, (0, None)) for _, index in request.partitions)


class Scene:
    """A network process between a careful worker and a careful control."""

    def __init__(self, worker: type[CarefulWorker] = CarefulWorker) -> None:
        self.node = NetNode({"t": 2})
        self.worker = self.node.worker = worker(self.node.shared, self.node.folders).prepare()
        self.control = CarefulControl(self.node.image, lambda _: None).prepare()
        self.node.control.control_sockets.close()
        self.node.control = self.control
        self.node.start()

    def appended(self, count: int) -> list[tuple[int, int, int]]:
        """The worker's first entries, once there are that many."""
        deadline = time.monotonic() + 60
        while len(self.worker.entries) < count and time.monotonic() < deadline:
            time.sleep(0.002)
        return self.worker.entries[:count]


@pytest.fixture
def scene() -> Iterator[Scene]:
    made = Scene()
    yield made
    made.control.go.set()
    assert made.node.stop() == 0


def frame(
    version: int, *sequences: int, partition: int = 0, number: int = 1, key: bytes | None = b"key"
) -> bytes:
    """A request with one batch for each of the partitions from `partition` on."""
    records = [(key, b"value", (), now_ms())]
    parts = [
        PartitionProduceData(
            partition + n, build_batch(records, producer=(*PRODUCER, sequence), transactional=True)
        )
        for n, sequence in enumerate(sequences)
    ]
    request = ProduceRequest("payments", -1, 10_000, [TopicProduceData("t", TOPIC_ID, parts)])
    return encode_request(PRODUCE, version, number, "test", request)


def answers(data: bytes, version: int) -> list[PartitionProduceResponse]:
    return read_produce(data, version).responses[0].partition_responses


def read_once_more(scene: Scene) -> None:
    """Waits until the network process has read everything that was sent before: until it has
    answered a later request, and another one after that answer."""
    with closing(scene.node.connect()) as link:
        for number in (1, 2):
            part = PartitionProduceData(0, build_batch([(b"key", b"value", (), now_ms())]))
            nowhere = ProduceRequest(None, -1, 10_000, [TopicProduceData("nowhere", bytes(16), [part])])
            (answer,) = answers(ask(link, encode_request(PRODUCE, 12, number, "test", nowhere)), 12)
            assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(
    ("version", "operation"),
    [
        (3, Operation.APPEND_VERIFIED),
        (9, Operation.APPEND_VERIFIED),
        (11, Operation.APPEND_VERIFIED),
        (12, Operation.APPEND_ADDED),
        (13, Operation.APPEND_ADDED),
    ],
)
def test_first_batch_is_appended_again_with_controls_consent(
    scene: Scene, version: int, operation: int
) -> None:
    with closing(scene.node.connect()) as link:
        (first,) = answers(ask(link, frame(version, 0)), version)
        (second,) = answers(ask(link, frame(version, 1)), version)
    assert [(first.error_code, first.base_offset), (second.error_code, second.base_offset)] == [
        (0, 0),
        (0, 1),
    ]
    assert scene.control.verifications == [VerifyTransaction("payments", *PRODUCER, (("t", 0),), version)]
    plain = Operation.APPEND
    assert scene.worker.entries == [(plain, 0, 0), (operation, LAST_END, 0), (plain, 0, 1)]


def test_pipelined_batches_keep_their_order_and_later_ones_wait(scene: Scene) -> None:
    scene.control.go.clear()
    with closing(scene.node.connect()) as link:
        link.sendall(b"".join(frame(12, sequence, number=sequence) for sequence in range(3)))
        scene.appended(3)
        link.sendall(frame(12, 3, number=3))
        read_once_more(scene)
        assert [sequence for *_, sequence in scene.worker.entries] == [0, 1, 2], "the fourth must wait"
        scene.control.go.set()
        offsets = [answers(read_frame(link), 12)[0].base_offset for _ in range(4)]
    assert offsets == [0, 1, 2, 3]
    assert [entry[2] for entry in scene.worker.entries[3:]] == [0, 1, 2, 3]


def test_batch_does_not_overtake_one_that_the_worker_has_not_seen_yet() -> None:
    """The second batch was in the ring before the first was returned, and is still there when the
    first is pushed again. A third batch right after them would find an open transaction, but the
    second would not."""
    scene = Scene(LateWorker)
    worker = scene.worker
    assert isinstance(worker, LateWorker)
    with closing(scene.node.connect()) as link:
        link.sendall(frame(12, 0, number=0))
        assert worker.took.wait(60)
        link.sendall(frame(12, 1, number=1))
        worker.wait_for(2)
        link.sendall(frame(12, 2, number=2))
        read_once_more(scene)
        assert worker.waiting() == 2, "the third must wait"
        worker.hold.clear()
        offsets = [answers(read_frame(link), 12)[0].base_offset for _ in range(3)]
    assert offsets == [0, 1, 2]
    assert scene.node.stop() == 0


def test_partitions_are_decided_one_by_one(scene: Scene) -> None:
    scene.control.codes[1] = (int(ErrorCode.INVALID_TXN_STATE), "not added")
    with closing(scene.node.connect()) as link:
        good, bad = answers(ask(link, frame(9, 0, 0)), 9)
    assert (good.error_code, good.base_offset) == (0, 0)
    assert (bad.error_code, bad.error_message) == (ErrorCode.INVALID_TXN_STATE, "not added")
    assert (bad.base_offset, bad.log_start_offset) == (-1, -1)
    # in one request, or in two if the IO worker saw the second batch later
    partitions = [
        partition for question in scene.control.verifications for _, partition in question.partitions
    ]
    assert sorted(partitions) == [0, 1]


@pytest.mark.parametrize("version", [11, 12])
@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.INVALID_TXN_STATE])
def test_control_verifies_records_that_are_refused(scene: Scene, version: int, code: ErrorCode) -> None:
    """Their partition is still added to the transaction, and control's refusals come first."""
    scene.node.shared.slots[0, Slot.FLAGS] = SlotFlag.COMPACTED
    scene.control.codes[0] = (int(code), "not added" if code else None)
    with closing(scene.node.connect()) as link:
        (answer,) = answers(ask(link, frame(version, 0, key=None)), version)
        (next_one,) = answers(ask(link, frame(version, 0, partition=1)), version)
    assert scene.control.verifications[0] == VerifyTransaction("payments", *PRODUCER, (("t", 0),), version)
    assert answer.error_code == (code or ErrorCode.INVALID_RECORD)
    assert answer.error_message == "not added" or [error.batch_index for error in answer.record_errors] == [0]
    assert next_one.error_code == ErrorCode.NONE
    assert len(scene.worker.entries) == 2, "the refused batch reaches no worker"


@pytest.mark.parametrize("version", [11, 12])
@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.INVALID_TXN_STATE])
@pytest.mark.parametrize("why", [ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.CORRUPT_MESSAGE])
def test_control_verifies_a_batch_that_is_refused(
    scene: Scene, version: int, code: ErrorCode, why: ErrorCode
) -> None:
    """A batch is too large or damaged: its partition is still added to the transaction, and
    control's refusals come first."""
    scene.control.codes[0] = (int(code), None)
    request = frame(version, 0)
    if why is ErrorCode.MESSAGE_TOO_LARGE:
        scene.node.shared.slots[0, Slot.MAX_MESSAGE_BYTES] = 60
    else:
        request = request.replace(b"value", b"other")
    with closing(scene.node.connect()) as link:
        (answer,) = answers(ask(link, request), version)
        (next_one,) = answers(ask(link, frame(version, 0, partition=1)), version)
    assert scene.control.verifications[0] == VerifyTransaction("payments", *PRODUCER, (("t", 0),), version)
    assert (answer.error_code, answer.log_start_offset) == (code or why, -1)
    assert next_one.error_code == ErrorCode.NONE
    assert len(scene.worker.entries) == 2, "the refused batch reaches no worker"


def test_worker_that_never_agrees_is_called_a_few_times_only(scene: Scene) -> None:
    scene.worker.stubborn = True
    with closing(scene.node.connect()) as link:
        (answer,) = answers(ask(link, frame(11, 0)), 11)
    assert answer.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert len(scene.worker.entries) == MAX_TRIES + 1


def test_no_later_batch_begins_before_one_that_the_producer_sends_again(scene: Scene) -> None:
    """Else the partition, which does not know the producer, would begin with the later one."""
    scene.control.codes[0] = (int(ErrorCode.NOT_ENOUGH_REPLICAS), None)
    with closing(scene.node.connect()) as link:
        (first,) = answers(ask(link, frame(11, 0)), 11)
        scene.control.codes.clear()
        (early,) = answers(ask(link, frame(11, 1)), 11)
        retries = [answers(ask(link, frame(11, sequence)), 11)[0] for sequence in (0, 1)]
    assert first.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert early.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert [(each.error_code, each.base_offset) for each in retries] == [(0, 0), (0, 1)]
    plain = Operation.APPEND
    written = [entry for entry in scene.worker.entries if entry[0] != plain]
    assert written == [(Operation.APPEND_VERIFIED, LAST_END, 0)]


def test_no_batch_waits_for_one_whose_partition_was_not_added(scene: Scene) -> None:
    """Its producer does not send it again."""
    scene.control.codes[0] = (int(ErrorCode.INVALID_TXN_STATE), None)
    with closing(scene.node.connect()) as link:
        ask(link, frame(11, 0))
        scene.control.codes.clear()
        (later,) = answers(ask(link, frame(11, 1)), 11)
    assert (later.error_code, later.base_offset) == (0, 0)


def test_the_lowest_refused_sequence_is_the_next_of_its_sender_and_epoch() -> None:
    lowest, sender = LowestSequences(), (1, 2, 3, 77)
    lowest.refused(sender, 5, 20, 0)
    lowest.refused(sender, 5, 10, 0)
    lowest.refused(sender, 5, 30, 0)
    assert not lowest.may_append(sender, 5, 11, 1)
    assert lowest.may_append((1, 2, 3, 78), 5, 11, 1)
    assert lowest.may_append(sender, 5, 10, 1)
    assert lowest.may_append(sender, 5, 11, 1), "it has been sent again"
    lowest.refused(sender, 5, 10, 2)
    lowest.refused(sender, 6, 20, 2)
    assert lowest.may_append(sender, 6, 20, 2), "sequences begin again with an epoch"


def test_a_refused_sequence_counts_for_a_while() -> None:
    lowest, sender = LowestSequences(), (1, 2, 3, 77)
    lowest.refused(sender, 5, 10, 0)
    assert not lowest.may_append(sender, 5, 11, RETRY_S - 1)
    assert lowest.may_append(sender, 5, 11, RETRY_S)
    lowest.refused(sender, 5, 10, RETRY_S)
    lowest.refused(sender, 5, 20, 3 * RETRY_S)
    assert lowest.may_append(sender, 5, 20, 3 * RETRY_S)


def test_so_many_refused_sequences_are_kept() -> None:
    lowest = LowestSequences()
    for number in range(MAX_REFUSED + 1):
        lowest.refused((1, 2, 3, number), 5, 10, 0)
    assert lowest.may_append((1, 2, 3, 0), 5, 11, 0)
    assert not lowest.may_append((1, 2, 3, 1), 5, 11, 0)


def test_client_that_leaves_meanwhile_does_not_affect_others(scene: Scene) -> None:
    scene.control.go.clear()
    with closing(scene.node.connect()) as link:
        link.sendall(frame(12, 0))
        scene.appended(1)
    with closing(scene.node.connect()) as other:
        scene.control.go.set()
        scene.appended(2)
        assert scene.node.closed_ids(1) == [1]
        (answer,) = answers(ask(other, frame(12, 1)), 12)
        assert (answer.error_code, answer.base_offset) == (0, 1)


def test_a_request_to_a_restarted_control_is_repeated(scene: Scene) -> None:
    scene.control.go.clear()
    with closing(scene.node.connect()) as link:
        link.sendall(frame(12, 0))
        assert scene.control.heard.wait(60)
        scene.control.drop()
        scene.control.go.set()
        (answer,) = answers(read_frame(link), 12)
    assert (answer.error_code, answer.base_offset) == (0, 0)
    assert len(scene.control.verifications) == 2


def test_a_client_id_that_is_no_text_is_read_as_kafka_reads_it(scene: Scene) -> None:
    with closing(scene.node.connect()) as link, closing(scene.node.connect()) as other:
        damaged = frame(11, 0).replace(b"test", b"\xff\xfe\xff\xfe")
        answer = read_produce(ask(link, damaged), 11).responses[0].partition_responses[0]
        assert answer.error_code == ErrorCode.NONE
        answer = read_produce(ask(other, frame(11, 0)), 11).responses[0].partition_responses[0]
        assert answer.error_code == ErrorCode.NONE
