"""The timing wheel against a plain list of (expiry, entry)."""

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from kbroker.purgatory.timing_wheel import TimerEntry, TimingWheel

START_MS = 1_700_000_000_000
DELAYS = st.one_of(st.integers(-10, 70), st.integers(0, 5000), st.integers(0, 1 << 40))


class WheelAgainstList(RuleBasedStateMachine):
    entries = Bundle("entries")

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = START_MS
        self.wheel = TimingWheel(self.now_ms)
        self.waiting: dict[TimerEntry, int] = {}

    @rule(target=entries, delay=DELAYS)
    def add(self, delay: int) -> TimerEntry:
        entry = TimerEntry(self.now_ms + delay)
        self.wheel.add(entry)
        self.waiting[entry] = max(entry.expiry_ms, self.now_ms)
        return entry

    @rule(entry=entries)
    def cancel(self, entry: TimerEntry) -> None:
        assert self.wheel.cancel(entry) == (self.waiting.pop(entry, None) is not None)

    @rule(entry=entries, delay=DELAYS)
    def reschedule(self, entry: TimerEntry, delay: int) -> None:
        self.wheel.reschedule(entry, self.now_ms + delay)
        self.waiting[entry] = max(entry.expiry_ms, self.now_ms)

    @rule(step=DELAYS)
    def advance(self, step: int) -> None:
        self.now_ms = max(self.now_ms, self.now_ms + step)
        self._advance()

    @rule(step=DELAYS, max_moved=st.integers(1, 4))
    def advance_in_parts(self, step: int, max_moved: int) -> None:
        self.now_ms = max(self.now_ms, self.now_ms + step)
        due = {entry for entry, at in self.waiting.items() if at <= self.now_ms}
        expired: list[TimerEntry] = []
        while self.wheel.now_ms < self.now_ms:
            before = len(self.wheel)
            some = self.wheel.advance(self.now_ms, max_moved)
            assert len(some) == before - len(self.wheel) <= max_moved
            expired += some
        assert len(expired) == len(set(expired))
        assert set(expired) <= due
        self._forget(expired)
        self._advance()

    @rule()
    def advance_to_the_next_expiry(self) -> None:
        """What a loop does that sleeps for next_expiry_ms: it reaches the first entry in a few
        wake-ups."""
        if not self.waiting:
            return
        first = min(self.waiting.values())
        for _ in range(12):
            due = self.wheel.next_expiry_ms()
            assert due is not None
            assert due <= first
            self.now_ms = max(self.now_ms, due)
            if self._advance():
                assert self.now_ms == first
                return
        raise AssertionError("the first entry never came due")

    def _advance(self) -> int:
        expired = self.wheel.advance(self.now_ms)
        due = [self.waiting[entry] for entry in expired]
        assert due == sorted(due)
        assert set(expired) == {entry for entry, at in self.waiting.items() if at <= self.now_ms}
        self._forget(expired)
        return len(expired)

    def _forget(self, expired: list[TimerEntry]) -> None:
        for entry in expired:
            assert not self.wheel.cancel(entry)
            del self.waiting[entry]

    @invariant()
    def agrees(self) -> None:
        assert len(self.wheel) == len(self.waiting)
        due = self.wheel.next_expiry_ms()
        assert (due is None) == (not self.waiting)
        if due is not None:
            assert due <= min(self.waiting.values())


TestWheelAgainstList = WheelAgainstList.TestCase


@given(st.integers(0, 63))
def test_next_expiry_is_exact_within_the_current_64_ms(delay: int) -> None:
    wheel = TimingWheel(START_MS - START_MS % 64)
    wheel.add(TimerEntry(wheel.now_ms + delay))
    assert wheel.next_expiry_ms() == wheel.now_ms + delay


def test_an_entry_of_the_past_is_due_at_once() -> None:
    wheel = TimingWheel(START_MS)
    entry = TimerEntry(START_MS - 1)
    wheel.add(entry)
    assert wheel.next_expiry_ms() == START_MS
    assert wheel.advance(START_MS) == [entry]


def test_the_largest_java_long_is_a_time() -> None:
    wheel = TimingWheel(0)
    wheel.add(TimerEntry(2**63 - 1))
    assert wheel.advance(START_MS) == []
    assert len(wheel) == 1


def test_time_never_goes_back() -> None:
    wheel = TimingWheel(START_MS)
    wheel.advance(START_MS + 10)
    wheel.advance(START_MS)
    assert wheel.now_ms == START_MS + 10


def test_entries_that_are_moved_in_parts_keep_their_order() -> None:
    """Two entries of one bucket of a higher level: the later one is moved first."""
    wheel = TimingWheel(0)
    late, early = TimerEntry(64 + 60), TimerEntry(64 + 5)
    wheel.add(late)
    wheel.add(early)
    assert wheel.advance(64 + 10, max_moved=1) == []
    assert wheel.next_expiry_ms() == 64
    assert wheel.advance(64 + 10) == [early]
    assert wheel.next_expiry_ms() == late.expiry_ms


def test_a_bucket_moved_in_parts_may_lose_the_rest_of_its_entries() -> None:
    wheel = TimingWheel(0)
    late, early, beyond = TimerEntry(64 + 60), TimerEntry(64 + 5), TimerEntry(2 * 64 + 1)
    for entry in (late, early, beyond):
        wheel.add(entry)
    assert wheel.advance(64, max_moved=1) == []
    assert wheel.cancel(early)
    assert wheel.next_expiry_ms() == late.expiry_ms
    assert wheel.advance(2 * 64 + 1) == [late, beyond]
