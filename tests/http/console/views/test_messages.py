"""Messages of a topic whose partitions have no leader: the log dirs are offline."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from kbroker.http.console.refusal import Refusal
from kbroker.http.console.request import Request
from kbroker.http.console.schema import from_query
from kbroker.http.console.views.messages import FILTERS, QUERY, Tail, messages
from kbroker.protocol.errors import ErrorCode


class Asked:
    """A request for messages of a topic; leaders: nodes by partition, -1 for none."""

    def __init__(self, leaders: dict[int, int], **query: str) -> None:
        partitions = [SimpleNamespace(partition_index=p, leader_id=node) for p, node in leaders.items()]
        topic = SimpleNamespace(error_code=int(ErrorCode.NONE), name="orders", partitions=partitions)
        self.caller = SimpleNamespace(ask=lambda *_, **__: SimpleNamespace(topics=[topic]))
        parameters = QUERY if "start" in query else FILTERS
        self._values = {"topic": "orders", **from_query(parameters, {name: [v] for name, v in query.items()})}

    def __getitem__(self, name: str) -> Any:
        return self._values[name]


def request(leaders: dict[int, int], **query: str) -> Request:
    return cast(Request, Asked(leaders, **query))


@pytest.mark.parametrize("start", ["latest", "earliest"])
def test_a_topic_without_a_leader_is_unavailable(start: str) -> None:
    with pytest.raises(Refusal) as refused:
        messages(request({0: -1, 1: -1}, start=start))
    assert (refused.value.status, refused.value.code) == (503, "unavailable")
    with pytest.raises(Refusal) as refused:
        Tail(request({0: -1}))
    assert refused.value.status == 503


def test_a_partition_without_a_leader_is_not_found() -> None:
    with pytest.raises(Refusal) as refused:
        messages(request({0: 1, 1: -1}, start="latest", partition="1"))
    assert refused.value.status == 404
