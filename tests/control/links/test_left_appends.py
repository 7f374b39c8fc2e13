"""Appends that a control process leaves in the ring of an IO worker which does not take them."""

import asyncio

import pytest

from kbroker.control.links import appender as appender_module
from kbroker.control.links.appender import Appender
from kbroker.control.metadata.catalogue import Partition
from kbroker.ipc.layout import AppendEntry
from kbroker.ipc.shared import Shared, Sizes
from tests.control.links.append_rings import Rings, run, until

PARTITION, OTHER = Partition("t", 0, "/d", 3, 77, worker=0), Partition("t", 1, "/e", 4, 78, worker=1)


def test_a_worker_that_hangs_delays_neither_the_start_of_control_nor_the_appends_of_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Control waited for it without an end, and no process found control meanwhile. The batches
    that the worker has not taken stay as they are in the arena."""
    monkeypatch.setattr(appender_module, "PREDECESSOR_S", 0.05)
    shared = Shared(Sizes(2, 2, 16, 8, 1 << 12))
    old = [bytes((number,)) * 900 for number in range(3)]

    async def first(appender: Appender, _: Rings) -> None:
        for content in old:
            appender.submit(PARTITION, content, lambda _: None)

    async def second(appender: Appender, hanging: Rings) -> None:
        assert "io 0 hangs: it has not taken 3 appends of the last control" in caplog.text
        over, rings = asyncio.ensure_future(appender.taken_over(0)), Rings(shared, 1)
        for number in range(20):
            appending = asyncio.ensure_future(appender.append(OTHER, b"x" * 900))
            (request,) = await until(rings.take)
            rings.complete(request[AppendEntry.TOKEN], base_offset=number)
            assert await appending == number
        assert not over.done()
        assert [hanging.bytes_of(request) for request in hanging.take()] == old
        later = asyncio.ensure_future(appender.append(PARTITION, b"later"))
        await over
        (request,) = await until(hanging.take)
        hanging.complete(request[AppendEntry.TOKEN], base_offset=3)
        assert await later == 3
        assert len(appender._space) == 0

    run(first, epoch=1, shared=shared)
    run(second, epoch=2, shared=shared)
