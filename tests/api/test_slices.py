"""Long requests to control run in slices: other requests do not wait for them."""

import asyncio
from functools import partial
from pathlib import Path

import pytest

from kbroker.ipc.slicing import Slicing
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.codec import encode
from kbroker.protocol.long_frame import LongFrame
from kbroker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.api.in_process import ask, client_request, dispatch_of
from tests.control.coordinator.runtime_scene import answer_of
from tests.control.fakes import World, world

COUNT = 5000


@pytest.fixture
def made(tmp_path: Path):  # type: ignore[no-untyped-def]
    with world(tmp_path) as one:
        yield one


@pytest.mark.parametrize(("name", "validate_only"), [("bad/name-{}", False), ("name-{}", True)])
def test_a_request_that_names_thousands_keeps_no_change_waiting(
    made: World, name: str, validate_only: bool
) -> None:
    topics = [CreatableTopic(name.format(number), 1, 1) for number in range(COUNT)]
    body = encode(CreateTopicsRequest(topics, 30_000, validate_only), 5)
    few = CreateTopicsRequest([CreatableTopic("new", 1, 1)], 30_000, False)

    async def run() -> None:
        request = client_request(ApiKey.CREATE_TOPICS, 5, body)

        async def serve() -> bytes | None:
            frame: bytes | None = await answer_of(
                await Slicing().run(partial(dispatch_of(made.broker), request))
            )
            return frame

        long = asyncio.ensure_future(serve())
        slices = 0
        while not long.done():
            await asyncio.sleep(0)
            assert not made.broker.changing.locked()
            slices += 1
        assert slices > 2
        assert isinstance(long.result(), (bytes, LongFrame))
        answer = await ask(made.broker, ApiKey.CREATE_TOPICS, 5, few)
        assert answer.topics[0].error_code == 0

    asyncio.run(run())
