"""Members of different groups have different timers, whatever their ids are."""

from kbroker.control.groups.timer_names import member_timer
from kbroker.protocol.errors import ErrorCode
from tests.control.groups.consumer_members import kafka_with


def test_ids_that_read_the_same_in_a_row_have_different_names() -> None:
    assert member_timer("session", "a-b", "c") != member_timer("session", "a", "b-c")
    assert member_timer("session", "1-a", "b") != member_timer("session", "1", "a-b")


def test_a_member_of_another_group_does_not_keep_a_silent_one_alive() -> None:
    kafka = kafka_with()
    kafka.beat("m", topics=["t"], group="g-other")
    epoch = kafka.beat("other-m", topics=["t"]).member_epoch
    for _ in range(46):
        kafka.advance(1000)
        assert kafka.beat("other-m", epoch).error_code == ErrorCode.NONE
    assert not kafka.described("g-other").members
