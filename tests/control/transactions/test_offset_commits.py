"""A transaction's marker waits for the offset commits that were verified before its end."""

import asyncio

from kbroker.control.transactions.offset_commits import PendingOffsetCommits

PARTITION, PRODUCER = 4, 7


class Scene:
    """loaded: the partitions that the group coordinator has loaded."""

    def __init__(self) -> None:
        self.loaded = {PARTITION}
        self.commits = PendingOffsetCommits(lambda partition: partition in self.loaded)

    def are_settled(self) -> bool:
        return self.commits.are_settled(PARTITION, PRODUCER)

    def settled(self) -> asyncio.Task[None]:
        return asyncio.ensure_future(self.commits.settled(PARTITION, PRODUCER))


async def turns() -> None:
    """Let the loop run all that is ready."""
    for _ in range(5):
        await asyncio.sleep(0)


def test_commits_are_settled_when_the_last_of_the_producer_has_ended() -> None:
    async def test() -> None:
        scene = Scene()
        assert scene.are_settled()
        with scene.commits.one(PRODUCER):
            with scene.commits.one(PRODUCER):
                assert not scene.are_settled()
            assert not scene.are_settled()
            assert scene.commits.are_settled(PARTITION, PRODUCER + 1)
        assert scene.are_settled()

    asyncio.run(test())


def test_a_commit_that_fails_is_no_longer_pending() -> None:
    async def test() -> None:
        scene = Scene()
        try:
            with scene.commits.one(PRODUCER):
                raise ValueError
        except ValueError:
            assert scene.are_settled()

    asyncio.run(test())


def test_no_marker_goes_to_a_partition_that_is_not_loaded() -> None:
    async def test() -> None:
        scene = Scene()
        scene.loaded.clear()
        assert not scene.are_settled()
        waiting = scene.settled()
        await turns()
        assert not waiting.done()
        scene.loaded.add(PARTITION)
        await waiting

    asyncio.run(test())


def test_a_marker_waits_for_all_commits_that_are_pending_and_for_no_later_one() -> None:
    async def test() -> None:
        scene = Scene()
        first, second, later = (scene.commits.one(PRODUCER) for _ in range(3))
        first.__enter__()
        second.__enter__()
        waiting = scene.settled()
        await turns()
        later.__enter__()
        first.__exit__(None, None, None)
        await turns()
        assert not waiting.done()
        second.__exit__(None, None, None)
        await turns()
        assert waiting.done()
        assert not scene.are_settled()
        later.__exit__(None, None, None)
        assert scene.are_settled()

    asyncio.run(test())


def test_a_marker_waits_for_no_other_producer() -> None:
    async def test() -> None:
        scene = Scene()
        with scene.commits.one(PRODUCER + 1):
            await scene.settled()

    asyncio.run(test())
