"""A ShareFetch that asks for more bytes than the broker gives in one answer: it gets what
fetch.max.bytes allows, and waits for no more than that."""

from collections.abc import Iterator

import pytest

from kbroker.protocol.records import read_batches
from tests.attack.peers import target
from tests.compat.group_talk import Talk
from tests.compat.share_scripts import begin, produce
from tests.compat.share_talk import ShareMember
from tests.conftest import BrokerFactory

INT_MAX = (1 << 31) - 1
LIMIT = 4096
BATCHES = 12


@pytest.fixture
def member(broker_factory: BrokerFactory) -> Iterator[tuple[Talk, ShareMember, bytes]]:
    """One of a group whose topic has more than LIMIT bytes in batches of 1 kB or so."""
    talk = Talk(target(broker_factory({"fetch.max.bytes": str(LIMIT)})), "bounds")
    talk.find_coordinator()
    group, topic, topic_id = begin(talk)
    produce(talk, "t", *[60] * BATCHES)
    member = ShareMember(talk, group, "a")
    member.heartbeat("joins", [topic])
    yield talk, member, topic_id
    member.close()


def test_one_answer_has_as_many_bytes_as_the_broker_allows(
    member: tuple[Talk, ShareMember, bytes],
) -> None:
    """Waiting for INT_MAX bytes would outlast the connection's 30 seconds, and be given all."""
    _, one, topic_id = member
    answer = one.fetch(
        "opens", topic_id, wait_ms=INT_MAX, min_bytes=INT_MAX, max_bytes=INT_MAX, max_records=INT_MAX
    )
    assert answer.error_code == 0
    (partition,) = answer.responses[0].partitions
    sizes = [len(batch.data) for batch in read_batches(partition.records)]
    assert 0 < sum(sizes) <= LIMIT
    assert 1 < len(sizes) < BATCHES


def test_an_answer_without_room_is_empty(member: tuple[Talk, ShareMember, bytes]) -> None:
    _, one, topic_id = member
    for max_bytes in (0, -1, -INT_MAX):
        answer = one.fetch("no room", topic_id, wait_ms=100, min_bytes=INT_MAX, max_bytes=max_bytes)
        assert answer.error_code == 0
        assert not any(part.records for each in answer.responses for part in each.partitions)
