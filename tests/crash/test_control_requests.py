"""Control dies in the middle of each kind of request: after its replay the state is what clients
were answered.

Each request has a twin that nothing happens to. The one that control dies over gets no answer;
afterwards everything is as it was answered before, and the request has been done wholly, as its
twin, or, where nothing was in a log yet, not at all.
"""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kbroker.protocol.messages.describe_groups import DescribeGroupsRequest
from kbroker.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from kbroker.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kbroker.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kbroker.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from kbroker.protocol.schema import Struct
from tests.compat.group_requests import fetch_request
from tests.compat.transaction_talk import TransactionTalk
from tests.crash.control_broker import Broker, read, running
from tests.crash.control_cases import CASES, Asked, Case

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]

SETTLED_S = 60


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    yield from running(tmp_path_factory.mktemp("control"))


def state(talk: TransactionTalk) -> dict[str, Any]:
    """All that a client can learn of the talk's topics, groups and transactions; names without the
    prefix."""
    group = talk.group()
    transaction = (ApiKey.DESCRIBE_TRANSACTIONS, 0, DescribeTransactionsRequest([talk.group("t")]))
    deadline = time.monotonic() + SETTLED_S
    while read(talk, *transaction).transaction_states[0].transaction_state.startswith("Prepare"):
        assert time.monotonic() < deadline, "the transaction is not completed"
        time.sleep(0.02)
    names = [MetadataRequestTopic(name=f"{talk.prefix}-{each}") for each in ("t", "new")]
    share = DescribeShareGroupOffsetsRequestGroup(group, None)
    questions: dict[str, tuple[ApiKey, int, Struct]] = {
        "topics": (ApiKey.METADATA, 12, MetadataRequest(names, False)),
        "classic": (ApiKey.DESCRIBE_GROUPS, 6, DescribeGroupsRequest([group])),
        "consumer": (ApiKey.CONSUMER_GROUP_DESCRIBE, 1, ConsumerGroupDescribeRequest([group])),
        "share": (ApiKey.SHARE_GROUP_DESCRIBE, 1, ShareGroupDescribeRequest([group])),
        "share offsets": (ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 1, DescribeShareGroupOffsetsRequest([share])),
        "offsets": (ApiKey.OFFSET_FETCH, 8, fetch_request(group, 8, None)),
        "transaction": transaction,
    }
    answers = {label: read(talk, *question) for label, question in questions.items()}
    for found in answers["topics"].topics:
        talk._topics.setdefault(found.topic_id, found.name)
    reported = {label: talk.level(answer) for label, answer in answers.items()}
    reported["topics"] = reported["topics"]["topics"]
    return {label: eval(repr(answer).replace(talk.prefix, "case")) for label, answer in reported.items()}


def settled(talk: TransactionTalk) -> dict[str, Any]:
    """The state once it does not change: what is decided is done behind the answer, as the markers
    of a transaction, or the first state of a share partition."""
    found, deadline = state(talk), time.monotonic() + SETTLED_S
    while time.monotonic() < deadline:
        time.sleep(0.2)
        before, found = found, state(talk)
        if found == before:
            break
    return found


def unlike(found: dict[str, Any], expected: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """What differs, by question."""
    return {label: (found[label], expected[label]) for label in expected if found[label] != expected[label]}


def prepare(broker: Broker, case: Case) -> tuple[TransactionTalk, Asked, dict[str, Any]]:
    talk = broker.talk()
    requested = case.before(talk)
    return talk, requested, settled(talk)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_state_matches_the_answers(broker: Broker, case: Case) -> None:
    twin, requested, twins_before = prepare(broker, case)
    assert requested.ask(twin) is not None
    twins_after = settled(twin)
    case.then(twin)
    twins_end = settled(twin)
    twin.close()
    for place in case.places:
        talk, requested, before = prepare(broker, case)
        deadline = time.monotonic() + SETTLED_S
        while unlike(before, twins_before) and time.monotonic() < deadline:
            time.sleep(0.1)
            before = state(talk)
        assert unlike(before, twins_before) == {}, place
        broker.arm(place, requested.api)
        assert requested.ask(talk) is None or place.endswith(("2", "3")), f"{place}: control did not die"
        after = state(talk)
        assert not broker.failpoint_file.exists(), f"{place}: control never came there"
        undone = place in case.undone_at and after == before
        deadline = time.monotonic() + SETTLED_S
        while not undone and unlike(after, twins_after) and time.monotonic() < deadline:
            time.sleep(0.1)
            after = state(talk)
        assert undone or unlike(after, twins_after) == {}, place
        if not undone:
            case.then(talk)
            assert unlike(settled(talk), twins_end) == {}, place
        talk.close()
