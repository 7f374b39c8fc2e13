"""Ranges in order, against a dictionary of every offset."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kbroker.control.share.ranges import DeliveryState, Range, Ranges


class RangesAgainstDict(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.ranges = Ranges()
        self.model: dict[int, tuple[DeliveryState, int]] = {}

    @rule(
        first=st.integers(0, 30),
        length=st.integers(1, 12),
        state=st.sampled_from(DeliveryState),
        count=st.integers(0, 2),
    )
    def put(self, first: int, length: int, state: DeliveryState, count: int) -> None:
        self.ranges.put(Range(first, first + length - 1, state, count))
        self.model |= dict.fromkeys(range(first, first + length), (state, count))

    @rule(offset=st.integers(0, 45))
    def drop_before(self, offset: int) -> None:
        self.ranges.drop_before(offset)
        self.model = {key: value for key, value in self.model.items() if key >= offset}

    @rule(first=st.integers(0, 40), length=st.integers(1, 20))
    def between(self, first: int, length: int) -> None:
        found: dict[int, tuple[DeliveryState, int]] = {}
        for each in self.ranges.between(first, first + length - 1):
            found |= dict.fromkeys(range(each.first, each.last + 1), (each.state, each.delivery_count))
        expected = {key: value for key, value in self.model.items() if first <= key < first + length}
        assert found == expected

    @invariant()
    def agrees(self) -> None:
        found: dict[int, tuple[DeliveryState, int]] = {}
        before = None
        for each in self.ranges:
            assert each.first <= each.last
            if before is not None:
                assert before.last < each.first
                assert before.last + 1 < each.first or not before.like(each)
            found |= dict.fromkeys(range(each.first, each.last + 1), (each.state, each.delivery_count))
            before = each
        assert found == self.model
        assert self.ranges.last_offset == max(self.model, default=-1)
        assert self.ranges.finished == sum(state.is_terminal for state, _ in self.model.values())


TestRangesAgainstDict = RangesAgainstDict.TestCase
