"""Names of topics and groups in the overview are those that the client may see."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from kbroker.config.broker import BrokerConfig
from kbroker.http.console import visible
from kbroker.http.console.caller import Caller
from kbroker.http.console.refusal import unavailable
from kbroker.http.console.request import Request
from kbroker.http.console.views.overview import SHOWN, overview, shown
from kbroker.http.console.visible import Visible
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode

AUTHORIZER = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
PLAIN = {"listeners": "PLAINTEXT://127.0.0.1:0"}


class Answering:
    """The broker hides names that begin with an x."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.answers = True

    def ask(self, api: ApiKey, request: Any, version: int) -> Any:
        if not self.answers:
            raise unavailable("gone")
        if api is ApiKey.METADATA:
            assert not request.allow_auto_topic_creation
            names = [topic.name for topic in request.topics]
            hidden = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        else:
            names = [group.group_id for group in request.groups]
            hidden = ErrorCode.GROUP_AUTHORIZATION_FAILED
        self.asked.append(names)
        rows = [
            SimpleNamespace(name=name, group_id=name, error_code=hidden if name[0] == "x" else 0)
            for name in names
        ]
        return SimpleNamespace(topics=rows, groups=rows)


class Clock:
    now = 10.0

    def __call__(self) -> float:
        return self.now


def of(broker: Answering, clock: Clock, settings: dict[str, str] = AUTHORIZER) -> Visible:
    return Visible(cast(Caller, broker), BrokerConfig({**PLAIN, **settings}), clock)


def test_a_name_that_the_client_may_not_see_is_left_out() -> None:
    broker, clock = Answering(), Clock()
    seen = of(broker, clock)
    assert seen.topics(["b", "x", "a"]) == ["b", "a"]
    assert seen.groups(["x", "b"]) == ["b"], "a group with the name of a topic is another thing"
    assert seen.topics(["a", "c"]) == ["a", "c"]
    assert broker.asked == [["b", "x", "a"], ["x", "b"], ["c"]]


def test_permissions_are_checked_again_soon() -> None:
    broker, clock = Answering(), Clock()
    seen = of(broker, clock)
    seen.topics(["a"])
    clock.now += visible.KEPT_S + 1
    seen.topics(["a"])
    assert broker.asked == [["a"], ["a"]]


def test_no_name_is_shown_while_the_broker_does_not_answer() -> None:
    broker, clock = Answering(), Clock()
    broker.answers = False
    assert of(broker, clock).topics(["a"]) == []


@pytest.mark.parametrize("kind", ["topics", "groups"])
def test_the_broker_is_not_asked_without_an_authorizer(kind: str) -> None:
    broker = Answering()
    assert getattr(of(broker, Clock(), {}), kind)(["x"]) == ["x"]
    assert broker.asked == []


def test_the_busiest_visible_topics_are_shown() -> None:
    names = [f"{'x' if at % 2 else 'a'}{at:02}" for at in range(40)]
    rates = {
        name: {"in_bytes": 100.0 - at, "out_bytes": 0.0, "in_records": 1.0} for at, name in enumerate(names)
    }
    sample = {"topics": rates, "topic_lag": {}, "requests": 1.0}
    found = shown(sample, of(Answering(), Clock()))
    assert [row["topic"] for row in found["top_topics"]] == names[: 2 * SHOWN : 2]
    assert found["requests"] == 1.0
    assert "topics" not in found


LAGS = {"x": {"a": 5}, "f": {"a": 1, "xs": 50}, "g": {"a": 3, "b": 4}}


def test_the_lag_of_the_overview_is_that_of_visible_groups_in_visible_topics() -> None:
    found = shown({"topics": {}, "lag": 63, "topic_lag": LAGS}, of(Answering(), Clock()))
    assert list(found["group_lag"].items()) == [("g", 7), ("f", 1)]
    assert (found["lag"], found["group_count"]) == (8, 2)
    assert "topic_lag" not in found


@pytest.mark.parametrize(
    ("lags", "charted"), [(LAGS, None), ({"g": {"xs": 0}}, None), ({"g": LAGS["g"]}, 63), ({}, 63)]
)
def test_the_chart_shows_the_lag_of_all_groups_to_those_who_may_see_all_of_it(
    lags: dict[str, dict[str, int]], charted: int | None
) -> None:
    class Asked:
        caller = Answering()
        config = BrokerConfig({**PLAIN, **AUTHORIZER})
        cluster_id, ports = "id", dict[str, int]()

        class live:  # noqa: N801
            @staticmethod
            def latest() -> dict[str, Any]:
                return {"topics": {}, "topic_lag": lags}

            @staticmethod
            def history() -> list[dict[str, Any]]:
                return [{"at_ms": 1, "lag": 63}]

    assert overview(cast(Request, Asked()))["history"] == [{"at_ms": 1, "lag": charted}]
