"""Requests in blocks: those of a block take turns with other work of the loop."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kbroker.config.client_quotas import REQUEST_PERCENTAGE, QuotaTable, entity_of
from kbroker.control import requests as module
from kbroker.control.requests import Requests
from kbroker.ipc.background import Background
from kbroker.ipc.messages import ClientRequest
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.frame import encode_request
from kbroker.protocol.messages.heartbeat import HeartbeatRequest
from tests.control.fakes import world
from tests.control.groups.commit_scene import PEER
from tests.ipc.request_block import pack_request

FRAME = encode_request(ApiKey.HEARTBEAT, 4, 1, "c", HeartbeatRequest("g", 1, "m"))[4:]


class Link:
    """Keeps the calls that are answered, and those whose connections are closed."""

    closed = False

    def __init__(self) -> None:
        self.answered: list[int] = []
        self.closings: list[int] = []
        self.failing = range(0)

    def reply(self, call: int, value: Any = None) -> None:
        assert value in (b"answer", None)
        (self.closings if value is None else self.answered).append(call)


def links() -> tuple[Any, Any]:
    return Link(), Link()


def block(calls: range) -> bytearray:
    """Of one request for each call."""
    return bytearray(b"".join(pack_request(call, PEER, FRAME) for call in calls))


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request takes the whole time of a turn."""
    monkeypatch.setattr(module, "BLOCKS_NS", 0)


@pytest.mark.usefixtures("slow")
def test_the_requests_of_a_long_block_leave_turns_to_others(tmp_path: Path) -> None:
    async def run(requests: Requests) -> None:
        link, other = links()
        requests.take_block(link, block(range(1, 4)))
        assert link.answered == [1]
        requests.take_block(other, block(range(11, 13)))
        assert other.answered == [], "blocks are served in the order in which they came"
        await turns(1)
        assert link.answered == [1, 2]
        await turns(20)
        assert (link.answered, other.answered) == ([1, 2, 3], [11, 12])
        requests.take_block(link, block(range(4, 5)))
        assert link.answered == [1, 2, 3, 4]

    _served(tmp_path, run)


@pytest.mark.usefixtures("slow")
def test_the_rest_of_a_block_whose_link_is_lost_is_dropped(tmp_path: Path) -> None:
    """Its clients have no connection any more, and may have sent contrary requests since."""

    async def run(requests: Requests) -> None:
        lost, other = links()
        requests.take_block(lost, block(range(1, 4)))
        requests.take_block(other, block(range(11, 13)))
        lost.closed = True
        await turns(20)
        assert (lost.answered, other.answered) == ([1], [11, 12])

    _served(tmp_path, run)


@pytest.mark.usefixtures("slow")
def test_a_request_that_fails_closes_its_connection_only(tmp_path: Path) -> None:
    """The other requests of its block got no answer until the next block came."""

    async def run(requests: Requests) -> None:
        link, other = links()
        link.failing = range(2, 4)
        requests.take_block(link, block(range(1, 5)))
        requests.take_block(other, block(range(11, 13)))
        await turns(20)
        assert (link.answered, link.closings, other.answered) == ([1, 4], [2, 3], [11, 12])

    _served(tmp_path, run)


def test_a_short_block_is_served_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCKS_NS", 10**12)

    async def run(requests: Requests) -> None:
        link, _ = links()
        requests.take_block(link, block(range(1, 4)))
        assert link.answered == [1, 2, 3]

    _served(tmp_path, run)


@pytest.mark.parametrize("is_left", [True, False])
def test_a_block_of_which_a_fast_path_has_served_all_is_not_read_again(tmp_path: Path, is_left: bool) -> None:
    async def run(requests: Requests) -> None:
        requests._broker.listeners.block_servers.append(lambda *_: is_left)
        link, _ = links()
        requests.take_block(link, block(range(1, 4)))
        await turns(20)
        assert link.answered == ([1, 2, 3] if is_left else [])

    _served(tmp_path, run)


def test_no_fast_path_serves_blocks_while_the_time_of_requests_has_a_quota(tmp_path: Path) -> None:
    async def run(requests: Requests) -> None:
        requests._broker.listeners.block_servers.append(lambda *_: False)
        user = entity_of([("user", "u")])
        requests._broker.quotas.merge(QuotaTable({user: {REQUEST_PERCENTAGE: 1.0}}))
        link, _ = links()
        requests.take_block(link, block(range(1, 4)))
        assert link.answered == [1, 2, 3]
        requests._broker.quotas.merge(QuotaTable({user: {}}))
        requests.take_block(link, block(range(4, 5)))
        assert link.answered == [1, 2, 3]

    _served(tmp_path, run)


def _served(folder: Path, run: Any) -> None:
    def dispatch(_: ClientRequest) -> bytes:
        return b"answer"

    def fast(link: Any, call: int, _: bytes, __: bytes) -> bool:
        if call in link.failing:
            raise TypeError("a bug")
        return False

    with world(folder) as made:
        made.broker.listeners.request_servers[FRAME[:2]] = fast
        asyncio.run(run(Requests(made.broker, dispatch, Background(None, "failed"))))
