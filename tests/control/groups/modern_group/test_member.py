"""States of members of modern groups."""

import pytest

from kbroker.control.groups.consumer_group.member import MemberState as ConsumerState
from kbroker.control.groups.modern_group.member import RecordedState
from kbroker.control.groups.streams_group.member import MemberState as StreamsState


@pytest.mark.parametrize("states", [ConsumerState, StreamsState])
def test_a_state_of_a_later_version_is_unknown(states: type[RecordedState]) -> None:
    assert states(99) is states["UNKNOWN"]
    assert states(2) is not states["UNKNOWN"]
