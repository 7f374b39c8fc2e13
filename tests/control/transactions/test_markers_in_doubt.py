"""Markers that are in a log, but not on its disk or its replicas: their transaction is not
complete."""

import asyncio

from kbroker.ipc.layout import Slot
from kbroker.protocol.errors import ErrorCode, KafkaError
from tests.control.transactions.marker_scene import A, Appends, B, Scene, run, until


def test_a_marker_that_may_be_lost_is_waited_for() -> None:
    """The first append got no answer, as its sync hung; the repeated one was refused, because the
    marker was in the log, and the transaction was complete before the marker was on disk."""

    async def test(scene: Scene) -> None:
        loop = asyncio.get_running_loop()
        scene.writer.unsafe = {A: loop.create_future(), B: loop.create_future()}
        scene.send(A, B)
        scene.writer.end(ErrorCode.INVALID_PRODUCER_EPOCH)
        scene.writer.end(ErrorCode.TRANSACTION_COORDINATOR_FENCED)
        await asyncio.sleep(0.01)
        assert (scene.written, scene.writer.found, scene.completions) == ([], [], [])
        scene.writer.unsafe[A].set_result(None)
        await until(lambda: scene.written)
        assert (scene.written, scene.writer.found, scene.completions) == ([A], [A], [])
        scene.writer.unsafe[B].set_exception(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        await until(lambda: scene.writer.markers)
        scene.writer.end()
        await until(lambda: scene.completions)

    run(test)


def test_an_order_that_was_given_up_counts_no_marker_that_it_waited_for() -> None:
    async def test(scene: Scene) -> None:
        scene.writer.unsafe = {A: asyncio.get_running_loop().create_future()}
        scene.send(A)
        scene.writer.end(ErrorCode.INVALID_PRODUCER_EPOCH)
        scene.sender.forget("t")
        scene.writer.unsafe[A].cancel()
        await asyncio.sleep(0.01)
        assert (scene.writer.found, scene.completions) == ([], [])

    run(test)


def test_a_marker_is_safe_below_the_high_watermark() -> None:
    appends = Appends()
    assert appends.writer.is_safe(A)
    appends.ends[Slot.HIGH_WATERMARK] = 2
    assert appends.writer.is_safe(("gone", 0))
    assert not appends.writer.is_safe(A)

    async def test() -> None:
        await appends.writer.safe(("gone", 0))
        waiting = asyncio.ensure_future(appends.writer.safe(A))
        await asyncio.sleep(0.02)
        assert not waiting.done()
        appends.ends[Slot.HIGH_WATERMARK] = 3
        await waiting

    asyncio.run(test())
