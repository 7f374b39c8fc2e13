"""The kernel's counts of the fetches that it serves."""

from typing import Any

import pytest

from kbroker.ipc.layout import Counter
from kbroker.metrics import layout as ml
from kbroker.net.rows import Connection, Context, Outcome
from kbroker.protocol.api_keys import ApiKey
from tests.net.fetch.kernel_scene import FIRST_SLOT, KernelScene


@pytest.mark.parametrize("sendfile", [False, True])
def test_metrics_count_requests_records_and_how_they_were_sent(scene: KernelScene, sendfile: bool) -> None:
    scene.tables.words[Context.SENDFILE_MIN] = 0 if sendfile else 1 << 20
    scene.show()
    words = scene.tables.metrics.words
    names = (
        ml.FETCHED_BYTES,
        ml.SENT_BY_SENDFILE,
        ml.SENT_BY_COPY,
        ml.ERRORS + ApiKey.FETCH * ml.ERROR_COUNT + 1,
    )
    before = [words[name] for name in names]
    expected, size = scene.last_batches()
    assert scene.outcome(partitions=expected) == Outcome.SERVED
    by_file = size if sendfile else 0
    found = [words[name] - old for name, old in zip(names, before, strict=True)]
    assert found == [size, by_file, size - by_file, 2]


def test_the_time_that_a_fetch_waited_is_its_purgatorys(scene: KernelScene) -> None:
    scene.show()
    row = scene.tables.connections[scene.row]
    how: dict[str, Any] = {"partitions": {0: scene.logs[0].start}, "min_bytes": 1 << 20, "max_wait_ms": 100}
    row[[Connection.BEGAN_NS, Connection.QUEUED_NS]] = 0
    assert scene.outcome(**how) == Outcome.WAITING
    began_ns = int(row[Connection.BEGAN_NS])
    assert began_ns > 0
    assert scene.outcome(**how, force=True) == Outcome.SERVED
    assert row[Connection.BEGAN_NS] > began_ns


def test_sent_bytes_are_counted(scene: KernelScene) -> None:
    scene.show()
    counters = scene.shared.counters[0][FIRST_SLOT : FIRST_SLOT + 2, [Counter.FETCHES, Counter.BYTES_OUT]]
    before = counters.copy()
    log = scene.logs[1]
    for _ in range(2):
        assert scene.outcome(partitions={1: log.batches[-1].base}) == Outcome.SERVED
    after = scene.shared.counters[0][FIRST_SLOT : FIRST_SLOT + 2, [Counter.FETCHES, Counter.BYTES_OUT]]
    assert (after - before).tolist() == [[0, 0], [2, 2 * len(log.batches[-1].data)]]
