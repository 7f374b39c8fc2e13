"""Facts that knobs and rules derive from a situation."""

from dataclasses import replace
from pathlib import Path

import pytest

from kbroker.config.broker import BrokerConfig
from kbroker.io.log_dirs import file_handles
from kbroker.net.accept import descriptors
from kbroker.net.accept.descriptors import MAX_FILES_OPEN
from tests.tuning.fakes import MOUNT, carrying, on, situation
from tuning.live import Live
from tuning.situation import FILES_OF_A_LOG, IO_SPARE_FILES, READ_FILES, TLS_CONNECTION, Situation

THREADS = {"num.network.threads": "2", "num.io.threads": "4", "offsets.topic.num.partitions": "50"}


def known(folder: Path, **load: object) -> Situation:
    base = replace(situation(folder), config=BrokerConfig(THREADS))
    return carrying(base, **load)


def test_replicas_are_those_of_internal_topics_too(tmp_path: Path) -> None:
    assert known(tmp_path, partitions=10, copies=1).replicas == 60
    assert known(tmp_path, partitions=10, copies=3).replicas == 180


@pytest.mark.parametrize(
    ("partitions", "connections", "files"),
    [
        (9950, 0, int((FILES_OF_A_LOG * 2500 + IO_SPARE_FILES) * 1.25)),
        (9951, 0, int((FILES_OF_A_LOG * 2501 + IO_SPARE_FILES) * 1.25)),
        (1, 20_000, int((10_000 + READ_FILES) * 1.25)),
        (1, 20_001, int((10_001 + READ_FILES) * 1.25)),
    ],
)
def test_files_are_those_of_the_process_that_needs_more(
    tmp_path: Path, partitions: int, connections: int, files: int
) -> None:
    assert known(tmp_path, partitions=partitions, connections=connections, copies=1).files_needed == files


def test_a_connection_with_tls_needs_more_descriptors(tmp_path: Path) -> None:
    base = known(tmp_path, partitions=1, connections=20_000, copies=1, tls=True)
    assert base.files_needed == int((10_000 * TLS_CONNECTION + READ_FILES) * 1.25)


def test_descriptors_are_counted_as_the_broker_counts_them() -> None:
    broker = (MAX_FILES_OPEN, descriptors.TLS_CONNECTION, file_handles.SPARE, file_handles.FILES_OF_A_LOG)
    assert broker == (READ_FILES, TLS_CONNECTION, IO_SPARE_FILES, FILES_OF_A_LOG)


def test_arenas_are_those_of_network_processes_and_of_control(tmp_path: Path) -> None:
    base = known(tmp_path)
    assert base.arena_bytes == 3 * base.config.get_int("kbroker.arena.bytes")


def test_fields_without_a_source_are_not_known(tmp_path: Path) -> None:
    base = replace(situation(tmp_path), assumed=frozenset({"partitions", "groups"}))
    assert base.knows("write_rate", "copies")
    assert not base.knows("write_rate", "groups")
    assert base.knows()


def test_room_is_what_is_free_and_the_larger_of_two_sights_of_the_logs(tmp_path: Path) -> None:
    live = Live({"kbroker_topic_log_bytes": {(("topic", "t"),): 5e9}})
    for held, logs in ((0, 5e9), (4e9, 5e9), (6e9, 6e9)):
        base = on(situation(tmp_path), mounts=(MOUNT,), held_bytes=int(held))
        assert replace(base, live=live).room_bytes == MOUNT.free_bytes + logs
    assert on(situation(tmp_path), mounts=()).room_bytes is None
