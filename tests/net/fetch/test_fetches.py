"""Work of a network process's fetches beside requests."""

from types import SimpleNamespace
from typing import Any

from kbroker.config.broker import BrokerConfig
from kbroker.log.open_files import OpenFiles
from kbroker.net.fetch.fetch_session import FetchSessionCache
from kbroker.net.fetch.fetches import Fetches
from kbroker.net.fetch.residency import always
from kbroker.net.fetch.senders import Senders
from kbroker.net.network_tables import MAX_FETCH_BYTES
from kbroker.net.topics import Topics
from kbroker.protocol.messages.fetch import FetchRequest
from tests.net.tables import new_tables


def test_files_of_partitions_whose_segments_have_changed_are_closed_once_a_second() -> None:
    calls: list[tuple[str, int]] = []
    fetches: Any = Fetches.__new__(Fetches)
    fetches.reader = SimpleNamespace(
        outdated=lambda limit: [3, 7][:limit], forget=lambda slot: calls.append(("reader", slot))
    )
    fetches.reader.files = OpenFiles()
    fetches.reads = SimpleNamespace(
        forget=lambda slot: calls.append(("table", slot)),
        shrink=lambda count: calls.append(("shrink", count)),
        sweep=lambda: calls.append(("sweep", 0)),
    )
    fetches._process = SimpleNamespace(descriptors=SimpleNamespace(divide=lambda: 80))
    cache = FetchSessionCache(1, lambda: 1, lambda _: None, lambda _: 0)
    fetches._manager = SimpleNamespace(cache=cache)
    fetches.purgatory = SimpleNamespace(delayed=0, watched=0)
    fetches._counts = SimpleNamespace(fetches=lambda *_: None)
    fetches.measure()
    assert calls == [("reader", 3), ("table", 3), ("reader", 7), ("table", 7), ("shrink", 10), ("sweep", 0)]
    assert (fetches.reader.files.capacity, fetches.reads.max_open) == (40, 10)


def test_records_of_an_answer_leave_room_for_its_size() -> None:
    settings = {"fetch.max.bytes": str((1 << 31) - 1)}
    tables = new_tables(settings)
    process: Any = SimpleNamespace(
        tables=tables,
        topics=Topics(tables),
        counts=SimpleNamespace(),
        quotas=SimpleNamespace(active=False),
        senders=Senders(tables),
    )
    fetches = Fetches(process, BrokerConfig(settings), always)
    limits = [fetches._limit(Any, FetchRequest(max_bytes=size)) for size in (1000, (1 << 31) - 1)]
    assert limits == [1000, MAX_FETCH_BYTES]
