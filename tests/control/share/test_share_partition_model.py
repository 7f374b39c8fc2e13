"""The records of a partition among members, against a dictionary of every offset; with and without
records that are not due."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kbroker.control.share.acknowledging import AcknowledgedBatch, AcknowledgeType
from kbroker.control.share.acquiring import Spec
from kbroker.control.share.limits import Limits
from kbroker.control.share.share_partition import SharePartition
from kbroker.protocol.errors import KafkaError

LIMITS = Limits(lock_ms=30_000, delivery_count=3, records=100)
ACCEPT, RELEASE, REJECT, GAP = (
    AcknowledgeType.ACCEPT,
    AcknowledgeType.RELEASE,
    AcknowledgeType.REJECT,
    AcknowledgeType.GAP,
)


class PartitionAgainstDict(RuleBasedStateMachine):
    """Every record is in exactly one state, changes it only as the protocol allows, and none is
    lost."""

    limits = LIMITS

    def __init__(self) -> None:
        super().__init__()
        self.part = SharePartition(0)
        self.now_ms = 0
        self.held: dict[int, tuple[str, int, int]] = {}
        self.counts: dict[int, int] = {}
        self.done: set[int] = set()
        self.looks: dict[int, int] = {}

    def look(self, batches: list[tuple[int, int]]) -> None:
        """Let records that are not due wait; here, all are always due."""

    def due_ms(self, offset: int) -> int:
        return 0

    @rule(member=st.sampled_from("abc"), most=st.integers(1, 20), strict=st.booleans())
    def acquire(self, member: str, most: int, strict: bool) -> None:
        start = self.part.next_offset(self.limits)
        batches = [(first, first + 3) for first in range(start - start % 4, start + 24, 4)]
        self.look(batches)
        spec = Spec(most, 3, strict)
        for given in self.part.acquire(member, batches, spec, self.limits, self.now_ms):
            for offset in range(given.first, given.last + 1):
                assert self.due_ms(offset) <= self.now_ms
                assert offset not in self.held
                assert offset not in self.done
                self.counts[offset] = self.counts.get(offset, 0) + 1
                assert given.delivery_count == self.counts[offset]
                self.held[offset] = (member, self.now_ms + LIMITS.lock_ms, given.delivery_count)

    @rule(
        member=st.sampled_from("abc"),
        first=st.integers(0, 60),
        length=st.integers(1, 6),
        kind=st.sampled_from([GAP, ACCEPT, RELEASE, REJECT]),
    )
    def acknowledge(self, member: str, first: int, length: int, kind: AcknowledgeType) -> None:
        self.end(member, first, length, kind, written=True)

    @rule(
        member=st.sampled_from("abc"),
        first=st.integers(0, 60),
        length=st.integers(1, 6),
        kind=st.sampled_from([GAP, ACCEPT, RELEASE, REJECT]),
    )
    def acknowledge_in_vain(self, member: str, first: int, length: int, kind: AcknowledgeType) -> None:
        """What cannot be written has not happened."""
        self.end(member, first, length, kind, written=False)

    def end(self, member: str, first: int, length: int, kind: AcknowledgeType, written: bool) -> None:
        first = max(first, self.part.start_offset)
        offsets = range(first, first + length)
        own = all(self.held.get(offset, ("", 0, 0))[0] == member for offset in offsets)
        try:
            batch = AcknowledgedBatch(first, first + length - 1, [kind])
            self.part.acknowledge(member, [batch], self.limits, self.now_ms)
        except KafkaError:
            assert not own
            return
        assert own
        ended, changes = self.part.take_ended(), self.part.take_changes()
        if not written:
            assert changes is not None
            self.part.roll_back(ended, changes[1])
            return
        for offset in offsets:
            self.free(offset, done=kind is not RELEASE)

    def free(self, offset: int, done: bool) -> None:
        _, _, count = self.held.pop(offset)
        if done or count >= LIMITS.delivery_count:
            self.done.add(offset)

    @rule(ms=st.integers(0, 40_000))
    def time_passes(self, ms: int) -> None:
        self.now_ms += ms
        self.part.expire(LIMITS, self.now_ms)
        for offset in [each for each, (_, deadline, _) in self.held.items() if deadline <= self.now_ms]:
            self.free(offset, done=False)
        self.part.end_pauses(self.now_ms)
        self.looks = {offset: at for offset, at in self.looks.items() if at > self.now_ms}

    @rule(member=st.sampled_from("abc"))
    def session_ends(self, member: str) -> None:
        self.part.release(member, LIMITS, self.now_ms)
        self.part.take_ended()
        for offset in [each for each, (holder, _, _) in self.held.items() if holder == member]:
            self.free(offset, done=False)

    @invariant()
    def agrees(self) -> None:
        part = self.part
        assert all(offset in self.done for offset in range(part.start_offset))
        assert part.start_offset not in self.done
        free = [
            each
            for each in range(part.start_offset, part.end_offset + 1)
            if each not in self.held and each not in self.done and each not in self.looks
        ]
        assert part.next_offset() == (free[0] if free else part.end_offset + 1)
        assert part.in_flight() == len(free) + len(self.held) + len(self.looks)
        deadlines = [*(each[1] for each in self.held.values()), *self.looks.values()]
        assert part.next_deadline_ms() == min(deadlines, default=None)


class DelaysAgainstDict(PartitionAgainstDict):
    """No record comes before it is due, however little room there is; all come in the end."""

    limits = LIMITS._replace(records=9)
    MAX_MS = 80_000

    def __init__(self) -> None:
        super().__init__()
        self.part.use_delay(0)

    def due_ms(self, offset: int) -> int:
        return offset * 7919 % 11 * self.MAX_MS // 10

    def look(self, batches: list[tuple[int, int]]) -> None:
        for first, last in batches:
            run: list[int] = []
            for offset in (*range(first, last + 1), -1):
                if offset >= 0 and self.due_ms(offset) > self.now_ms:
                    run.append(offset)
                elif run:
                    self.hold_back(run)
                    run = []

    def hold_back(self, run: list[int]) -> None:
        next_check_ms = min(self.due_ms(offset) for offset in run)
        self.part.hold_back(run[0], run[-1], next_check_ms)
        for offset in run:
            if offset >= self.part.start_offset and offset not in self.counts:
                self.looks.setdefault(offset, next_check_ms)

    @rule(delay_ms=st.integers(-1, 1))
    def the_setting_changes(self, delay_ms: int) -> None:
        if self.part._delay_ms != delay_ms:
            self.looks.clear()
        self.part.use_delay(delay_ms)

    @invariant()
    def takes_no_more_room_than_there_is(self) -> None:
        taken = [offset for offset in self.counts if offset not in self.done]
        assert len(taken) <= self.limits.records + 3  # the rest of a batch of four

    def teardown(self) -> None:
        """Later all records are due, and none is stuck."""
        part, now_ms, end = self.part, self.now_ms + self.MAX_MS, self.part.end_offset
        part.expire(self.limits, now_ms)
        part.end_pauses(now_ms)
        while part.start_offset <= end:
            start = part.next_offset(self.limits)
            batches = [(first, first + 3) for first in range(start - start % 4, start + 24, 4)]
            acquired = part.acquire("z", batches, Spec(20), self.limits, now_ms)
            assert acquired
            for each in acquired:
                batch = AcknowledgedBatch(each.first, each.last, [ACCEPT])
                part.acknowledge("z", [batch], self.limits, now_ms)


TestDelaysAgainstDict = DelaysAgainstDict.TestCase
TestPartitionAgainstDict = PartitionAgainstDict.TestCase
