"""The kernels serve what the bench sends them, and count it."""

from pathlib import Path

import pytest

from bench.hot_path import CONNECTIONS, PARTITIONS, HotPath, frames_of
from kbroker.kernels.codes import ApiKey
from kbroker.metrics import layout
from kbroker.net.rows import May
from tests.net.requests import read_fetch, read_produce


def requests(path: HotPath, api: int) -> int:
    """Requests of an API in the metrics."""
    at = layout.REQUESTS + api * layout.VERSION_COUNT
    return int(path.shared.metrics[0, at : at + layout.VERSION_COUNT].sum())


def frames(data: bytes) -> list[bytes]:
    """Answers without their sizes."""
    found = []
    while data:
        end = 4 + int.from_bytes(data[:4], "big")
        found.append(data[4:end])
        data = data[end:]
    return found


@pytest.mark.parametrize("with_acls", [False, True])
def test_kernels_append_and_acknowledge_each_request(tmp_path: Path, with_acls: bool) -> None:
    path = HotPath(tmp_path, with_acls)
    for work, in_flight in (("raw_50x1", 1), ("raw_50x5", 5)):
        before = requests(path, ApiKey.PRODUCE)
        for _ in range(2):
            took, answers = path.turn(frames_of(work))
            assert took > 0
            assert len(answers) == CONNECTIONS
            for each in answers:
                answered = [read_produce(frame, 12) for frame in frames(each)]
                parts = [one.responses[0].partition_responses[0] for one in answered]
                assert [part.error_code for part in parts] == [0] * in_flight
        assert requests(path, ApiKey.PRODUCE) == before + 2 * CONNECTIONS * in_flight


@pytest.mark.parametrize("with_acls", [False, True])
def test_kernels_answer_each_fetch_with_records(tmp_path: Path, with_acls: bool) -> None:
    path = HotPath(tmp_path, with_acls)
    for _ in range(2):
        _, answers = path.turn(frames_of("fetch_4k"))
        for each in answers:
            part = read_fetch(each[4:], 16).responses[0].partitions[0]
            assert (part.partition_index, part.error_code) == (PARTITIONS, 0)
            assert part.records
    assert requests(path, ApiKey.FETCH) == 2 * CONNECTIONS


def test_kernels_check_the_grant_of_each_client(tmp_path: Path) -> None:
    path = HotPath(tmp_path, with_acls=True)
    path.grant(May.DESCRIBE)
    with pytest.raises(RuntimeError, match="events for Python"):
        path.turn(frames_of("fetch_4k"))
