"""Members of a group choose the names of topics that they subscribe to and assign: offsets and
numbers of records are shown only of topics that the reader may describe."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kbroker.config.broker import BrokerConfig
from kbroker.http.console.request import Request
from kbroker.http.console.views.groups import GROUP, GROUPS, group, groups
from kbroker.ipc.http_messages import GroupSummary
from kbroker.ipc.layout import Slot
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.codec import encode
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from kbroker.protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from tests.http.console.schemas import problems
from tests.http.scene import Scene

SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
}
VALUES: dict[str, Any] = {
    "group": "mine",
    "search": None,
    "kind": None,
    "topic": None,
    "sort": "lag",
    "offset": 0,
    "limit": 10,
}


@pytest.fixture
def request_of(tmp_path: Path) -> Request:
    """Of a user who may describe the topic `open`, and the groups `mine`, whose member has assigned
    itself partitions of `secret`, too, `ahead` and `other`, which reads `secret` alone. Both topics
    have 90 records, and `ahead` has 10 in `open` left."""
    scene = Scene(tmp_path)
    for name in ("open", "secret"):
        scene.shared.slots[scene.topic(name)[0], Slot.HIGH_WATERMARK] = 90
    subscribed = ("open", "secret")
    scene.view.summaries = (
        GroupSummary("mine", "classic", "Stable", 1, {}, {}, subscribed),
        GroupSummary("ahead", "classic", "Empty", 0, {"open": {0: 80}, "secret": {0: 0}}),
        GroupSummary("other", "classic", "Empty", 0, {"secret": {0: 0}}),
    )
    member = DescribedGroupMember("m", None, "client", "/10.0.0.1")
    assigned = [TopicPartition("open", [0]), TopicPartition("secret", [0, 1])]
    member.member_assignment = b"\0\3" + encode(ConsumerProtocolAssignment(assigned), 3)
    described = DescribedGroup(0, None, "mine", "Stable", "consumer", "range", [member])
    listed = [
        SimpleNamespace(group_id=name, group_type="classic", group_state="Stable")
        for name in ("ahead", "mine", "other")
    ]
    answers = {
        ApiKey.LIST_GROUPS: SimpleNamespace(error_code=0, groups=listed),
        ApiKey.DESCRIBE_GROUPS: SimpleNamespace(groups=[described]),
        ApiKey.OFFSET_FETCH: SimpleNamespace(groups=[SimpleNamespace(error_code=0, topics=[])]),
    }

    def ask(api: ApiKey, question: Any, **_: Any) -> Any:
        if api is not ApiKey.METADATA:
            return answers[api]
        names = [topic.name for topic in question.topics]
        hidden = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        rows = [SimpleNamespace(name=name, error_code=hidden if name == "secret" else 0) for name in names]
        return SimpleNamespace(topics=rows)

    class Asked:
        caller = SimpleNamespace(ask=ask)
        view, shared, config = scene.view, scene.shared, BrokerConfig(SETTINGS)

        def __getitem__(self, name: str) -> Any:
            return VALUES[name]

    return cast(Request, Asked())


def test_a_group_shows_no_offsets_of_a_topic_that_its_reader_may_not_describe(request_of: Request) -> None:
    found = group(request_of)
    assert problems(found, GROUP) == []
    assert [(row["topic"], row["lag"]) for row in found["partitions"]] == [("open", 90)]
    assert found["lag"] == 90


def test_the_lag_of_a_listed_group_and_the_order_count_the_topics_that_are_named(request_of: Request) -> None:
    found = groups(request_of)
    assert problems(found, GROUPS) == []
    assert [(row["topics"], row["lag"]) for row in found["groups"]] == [
        (["open"], 90),
        (["open"], 10),
        ([], None),
    ]


@pytest.mark.parametrize(("topic", "readers"), [("open", [("mine", 90), ("ahead", 10)]), ("secret", [])])
def test_the_groups_of_a_topic_are_those_that_read_it_with_their_lag_there(
    request_of: Request, topic: str, readers: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(VALUES, "topic", topic)
    found = groups(request_of)
    assert problems(found, GROUPS) == []
    assert [(row["group"], row["lag"]) for row in found["groups"]] == readers
    assert found["total"] == len(readers)


def test_a_share_group_reads_a_topic_and_lags_there_by_what_it_has_not_finished(
    request_of: Request, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(VALUES, "topic", "open")
    lags = {"open": 20, "secret": 70}
    summary = GroupSummary("mine", "share", "Stable", 1, {}, {}, ("open", "secret"), lags)
    monkeypatch.setattr(request_of.view, "summaries", (summary,))
    (row,) = groups(request_of)["groups"]
    assert (row["group"], row["lag"], row["topics"]) == ("mine", 20, ["open"])
