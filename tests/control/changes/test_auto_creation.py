"""Topics that requests name are created in the background: together, once, and within bounds."""

import asyncio
from pathlib import Path

import pytest

from kbroker.control.changes import auto_creation, log_closings
from kbroker.control.changes.auto_creation import AutoCreation
from tests.control.changes.created import until_created
from tests.control.fakes import World, world


@pytest.fixture
def made(tmp_path: Path):  # type: ignore[no-untyped-def]
    with world(tmp_path) as one:
        yield one


def images_of(made: World) -> int:
    """Images that have brought topics to the network process."""
    return sum(bool(image.topics) for image in made.network.images)


def test_names_of_a_short_time_are_created_in_one_change_and_reported_to_their_requests(made: World) -> None:
    first: list[str] = []
    second: list[str] = []

    async def run() -> None:
        creation = AutoCreation(made.broker)
        creation.create(["a", "b"], first.extend)
        creation.create(["b", "c"], second.extend)
        assert not made.broker.catalogue.topics, "nothing is created before the request is answered"
        await until_created(made.broker, "a", "b", "c")
        while not second:
            await asyncio.sleep(0)

    before = images_of(made)
    asyncio.run(run())
    assert (first, second) == (["a", "b"], ["c"])
    assert images_of(made) == before + 1


def test_a_name_can_be_created_again_once_it_was_created(made: World) -> None:
    created: list[str] = []

    async def run() -> None:
        creation = AutoCreation(made.broker)
        for count in (1, 2):
            creation.create(["a", f"other-{count}"], created.extend)
            await until_created(made.broker, f"other-{count}")
            while f"other-{count}" not in created:
                await asyncio.sleep(0)

    asyncio.run(run())
    assert created == ["a", "other-1", "other-2"], "the second time it exists, which is no error"


def test_topics_do_not_wait_for_the_logs_of_a_deleted_one(
    made: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its producers name it again and again, while an IO worker hangs."""
    monkeypatch.setattr(log_closings, "CLOSE_S", 3600.0)

    async def run() -> None:
        made.broker.closing.begin(["deleted"])
        creation = AutoCreation(made.broker)
        creation.create(["deleted", "b"], lambda _: None)
        await asyncio.wait_for(until_created(made.broker, "b"), 60)
        creation.create(["deleted"], lambda _: None)
        creation.create(["c"], lambda _: None)
        await asyncio.wait_for(until_created(made.broker, "c"), 60)
        made.broker.closing.end(["deleted"])
        creation.create(["deleted"], lambda _: None)
        await asyncio.wait_for(until_created(made.broker, "deleted"), 60)

    asyncio.run(run())


def test_a_request_with_more_names_than_have_room_creates_none(
    made: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auto_creation, "MAX_WAITING", 3)
    created: list[str] = []

    async def run() -> None:
        creation = AutoCreation(made.broker)
        creation.create(["a", "b"], created.extend)
        creation.create(["c", "d"], created.extend)
        await until_created(made.broker, "a", "b")
        while not created:
            await asyncio.sleep(0)
        creation.create(["c"], created.extend)
        await until_created(made.broker, "c")

    asyncio.run(run())
    assert sorted(made.broker.catalogue.topics) == ["a", "b", "c"]


def test_topics_too_large_for_one_change_are_created_one_by_one(
    made: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kbroker.control.changes.topic_change.MAX_RECORDS_PER_REQUEST", 3)

    async def run() -> None:
        AutoCreation(made.broker).create(["a", "b", "c"], lambda _: None)
        await until_created(made.broker, "a", "b", "c")

    asyncio.run(run())
    assert sorted(made.broker.catalogue.topics) == ["a", "b", "c"]
