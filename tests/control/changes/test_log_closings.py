"""Deletions beside an IO worker that hangs."""

import asyncio
from pathlib import Path

import pytest

from kbroker.control.changes import log_closings
from kbroker.control.changes.topic_change import create_topics, delete_topics
from kbroker.control.metadata.topic_plan import NewTopic
from tests.control.fakes import World, world


def test_only_the_first_deletion_waits_for_a_worker_that_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them waited, while no other change could begin: a client that deletes topics one by
    one, and the end of each reassignment, before replicas were checked again."""

    async def test(made: World) -> None:
        await create_topics(made.broker, [NewTopic(name) for name in "abcd"])
        topics = {name: made.broker.catalogue.topics[name] for name in "abcd"}
        continued, call = asyncio.Event(), made.worker.call

        async def hang(body: object) -> object:
            await continued.wait()
            return await call(body)

        async def delete(name: str) -> None:
            assert await delete_topics(made.broker, lambda: [topics[name]]) == [None]

        monkeypatch.setattr(made.worker, "call", hang)
        with monkeypatch.context() as impatient:
            impatient.setattr(log_closings, "CLOSE_S", 0.01)
            await delete("a")
        monkeypatch.setattr(log_closings, "CLOSE_S", 3600.0)
        for name in "bc":
            await asyncio.wait_for(delete(name), 20)
        assert all(made.broker.closing.pending(name) for name in "abc")
        continued.set()
        await made.broker.late_closings.wait(20)
        assert not any(made.broker.closing.pending(name) for name in "abc")
        await asyncio.wait_for(delete("d"), 20)
        assert not made.broker.closing.pending("d"), "it has waited again"
        assert not made.worker.opened

    with world(tmp_path) as made:
        asyncio.run(test(made))
