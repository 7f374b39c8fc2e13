"""What a long request names is looked up in small dicts, since a large one stops control each time
it grows; the answer keeps the order of the request."""

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kbroker.protocol import slices
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.codec import decode_exact
from kbroker.protocol.frame import parse_response
from kbroker.protocol.messages import response_class
from kbroker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kbroker.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kbroker.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kbroker.protocol.schema import Struct
from tests.api.freed_blocks import changes_by_slice
from tests.control.coordinators_scene import Scene, play
from tests.control.fakes import world

pytestmark = pytest.mark.slow

ENTRIES = 800
MAX_ENTRIES = 125
"""Of one dict; in this test it is divided when it has half as many."""
LOOK_EVERY = 25
"""Slices."""
NAMES = [f"n{number}" for number in range(ENTRIES)]


def created(validate_only: bool) -> tuple[ApiKey, int, Struct]:
    topics = [CreatableTopic(name, 0, 1) for name in NAMES]  # refused one by one
    return ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics, 30_000, validate_only)


REQUESTS: dict[str, tuple[tuple[ApiKey, int, Struct], Callable[[Any], list[str]]]] = {
    "topics": (created(False), lambda answer: [each.name for each in answer.topics]),
    "topics to validate": (created(True), lambda answer: [each.name for each in answer.topics]),
    "settings": (
        (
            ApiKey.DESCRIBE_CONFIGS,
            4,
            DescribeConfigsRequest([DescribeConfigsResource(2, name, None) for name in (*NAMES, NAMES[3])]),
        ),
        lambda answer: [each.resource_name for each in answer.results],
    ),
    "offsets": (
        (
            ApiKey.OFFSET_DELETE,
            0,
            OffsetDeleteRequest(
                "g",
                [
                    OffsetDeleteRequestTopic(name, [OffsetDeleteRequestPartition(0)])
                    for name in (*NAMES, NAMES[3])
                ],
            ),
        ),
        lambda answer: [each.name for each in answer.topics],
    ),
}


@pytest.mark.parametrize("kind", REQUESTS)
def test_a_long_request_makes_no_large_dict_and_is_answered_in_order(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    requested, names = REQUESTS[kind]
    changes_by_slice(monkeypatch)
    run_slice = slices.Work.run_slice
    known: set[int] = set()
    largest: list[int] = []

    def looked(work: slices.Work) -> Any:
        found = run_slice(work)
        if work.slices % LOOK_EVERY == 0:
            dicts = (each for each in gc.get_objects() if type(each) is dict and id(each) not in known)
            largest.append(max(map(len, dicts)))
        return found

    monkeypatch.setattr(slices.Work, "run_slice", looked)

    async def body(scene: Scene) -> None:
        scene.table.create_classic("g", 0)
        known.update(id(each) for each in gc.get_objects() if type(each) is dict)
        frame = await scene.ask(*requested)
        start = parse_response(frame[4:], *requested[:2])[1]
        assert names(decode_exact(response_class(requested[0]), requested[1], frame[4:], start)) == NAMES

    with world(tmp_path) as made:
        play(made, body)
    assert len(largest) > ENTRIES / slices.CHECK_EVERY / LOOK_EVERY
    assert max(largest) < MAX_ENTRIES
