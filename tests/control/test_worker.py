"""The control process over real links: who is greeted with what, when it is ready, how requests are
answered."""

import asyncio
import errno
import logging
import sqlite3
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from kbroker.control import state, worker
from kbroker.control.changes import log_closings
from kbroker.control.changes.topic_change import create_topics, grow_topic
from kbroker.control.coordinator.running import Running
from kbroker.control.metadata.catalogue import Replica
from kbroker.control.metadata.topic_plan import NewTopic
from kbroker.control.replication.service import Replication
from kbroker.control.requests import SLICED_FROM_BYTES
from kbroker.control.store.change import Change, Deletion
from kbroker.ipc import connecting
from kbroker.ipc import messages as m
from kbroker.ipc.block import pack_peer, peer_of
from kbroker.ipc.child import EXIT_CANNOT_START
from kbroker.ipc.layout import ProcessLine
from kbroker.ipc.link import frame_block
from kbroker.ipc.wire import pack
from kbroker.log import files
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.frame import encode_request
from kbroker.protocol.messages.metadata import MetadataRequest
from tests.api.in_process import client_request
from tests.control.control_scene import EPOCH, Stage, coordinator_of, play
from tests.control.coordinator.runtime_scene import TOPIC, Machine
from tests.control.links.append_rings import until
from tests.ipc.request_block import pack_request


def test_deletions_that_a_disk_refused_at_the_start_are_retried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_closings, "RETRY_S", 0.01)

    async def scene(stage: Stage) -> None:
        await stage.worker(0)
        await until(lambda: not stage.broker.closing.pending("a"))
        assert await stage.broker.in_store(lambda store: store.deletions()) == []

    stage = Stage(tmp_path)
    one = Deletion(b"deleted topic id", Replica("a", 0, stage.log_dir, 0, 1))
    asyncio.run(stage.broker.in_store(lambda store: store.apply(Change(deletions=[one]))))
    stage.broker.close()
    with monkeypatch.context() as failing:
        failing.setattr(state, "retire_all", lambda *_: [])
        stage.broker = stage.build()
    assert stage.broker.closing.pending("a")
    play(stage, scene)


def openings(got: list[Any]) -> list[m.OpenPartition]:
    return [body for body in got if isinstance(body, m.OpenPartition)]


def test_it_is_ready_when_every_io_worker_has_opened_its_partitions(tmp_path: Path) -> None:
    async def scene(stage: Stage) -> None:
        await stage.worker(0)
        await asyncio.sleep(0.05)
        assert not stage.ready
        await stage.worker(1)
        await until(lambda: stage.ready)

    play(Stage(tmp_path, workers=2), scene)


def test_the_store_reserves_space_soon_after_the_start(tmp_path: Path) -> None:
    async def scene(stage: Stage) -> None:
        await stage.worker(0)
        await until(lambda: Path(stage.log_dir, "kbroker.db-wal").stat().st_size >= 1 << 20)

    play(Stage(tmp_path), scene)


@pytest.mark.parametrize("failed", [False, True])
def test_a_log_dir_is_marked_as_checked_when_all_logs_are_open_unless_it_has_failed(
    tmp_path: Path, failed: bool
) -> None:
    async def scene(stage: Stage) -> None:
        mark = tmp_path / files.BOOT_MARK
        assert not mark.exists()
        if failed:
            stage.broker.dir_errors.fail(stage.log_dir, errno.EIO)
        await stage.worker(0)
        await until(lambda: stage.ready)
        if failed:
            await asyncio.sleep(0.05)
            assert not mark.exists()
        else:
            await until(mark.exists)

    play(Stage(tmp_path), scene)


def test_a_network_process_is_greeted_with_everything_and_then_with_changes(tmp_path: Path) -> None:
    async def scene(stage: Stage) -> None:
        await stage.worker(0)
        await until(lambda: stage.ready)
        await create_topics(stage.broker, [NewTopic("a")])
        network = await stage.network()
        first = await until(lambda: network.got and network.got[0])
        assert first.full
        assert [topic.name for topic in first.topics] == ["a"]
        await create_topics(stage.broker, [NewTopic("b")])
        assert not network.got[-1].full
        assert [topic.name for topic in network.got[-1].topics] == ["b"]
        assert network.got[-1].version > first.version

    play(Stage(tmp_path), scene)


def test_an_io_worker_that_restarts_gets_all_its_partitions_again(tmp_path: Path) -> None:
    async def scene(stage: Stage) -> None:
        first = await stage.worker(0)
        await until(lambda: stage.ready)
        await create_topics(stage.broker, [NewTopic("a", 3)])
        first.link.close()
        second = await stage.worker(0)
        opened = await until(lambda: openings(second.got)[2:] and openings(second.got))
        assert sorted(body.partition for body in opened) == [0, 1, 2]
        assert not any(body.new for body in opened)  # a finished copy of a move may wait for its name
        await create_topics(stage.broker, [NewTopic("b")])
        assert second.got[-1].topic == "b"

    play(Stage(tmp_path), scene)


def test_the_successor_of_control_opens_what_there_is(tmp_path: Path) -> None:
    stage = Stage(tmp_path)

    async def first(stage: Stage) -> None:
        await stage.worker(0)
        await until(lambda: stage.ready)
        await create_topics(stage.broker, [NewTopic("a", 2)])

    async def second(stage: Stage) -> None:
        worker = await stage.worker(0)
        await until(lambda: stage.ready)
        assert sorted(body.partition for body in openings(worker.got)) == [0, 1]

    play(stage, first)
    stage.shared.processes[stage.shared.control_client, ProcessLine.READY] = 0
    stage.broker = stage.build()
    play(stage, second)


@pytest.mark.parametrize("body", [b"", bytes(SLICED_FROM_BYTES + 1)], ids=["short", "long"])
def test_requests_are_answered_at_once_or_later_or_by_closing(
    tmp_path: Path, body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def later() -> bytes:
        await asyncio.sleep(0.01)
        return b"later"

    async def broken() -> bytes:
        raise RuntimeError("a bug")

    answers: dict[int, Callable[[], Any]] = {
        0: lambda: b"now",
        1: lambda: Running(later()),
        2: lambda: None,
        3: lambda: 1 // 0,
        4: lambda: Running(broken()),
    }

    async def scene(stage: Stage) -> None:
        network = await stage.network()
        calls = [network.link.call(client_request(ApiKey.METADATA, version, body)) for version in answers]
        assert await asyncio.gather(*calls) == [b"now", b"later", None, None, None]
        assert await network.link.call(client_request(ApiKey.METADATA, 0, b"")) == b"now"

    with caplog.at_level(logging.ERROR):
        play(Stage(tmp_path), scene, lambda client: answers[client.api_version]())
    failed = [record.getMessage() for record in caplog.records if record.exc_info]
    assert failed == [f"API {ApiKey.METADATA:d} version {version} failed" for version in (3, 4)]


def abandoned_socket(control_sockets: connecting.ControlSockets, *messages: bytes) -> None:
    """A network process that connected while there was no control, sent something, and died."""
    with connecting.connect(control_sockets.connector) as end:
        end.sendall(b"".join((pack(0, m.Hello("network", 0, 1)), *messages)))


def test_requests_of_a_process_that_died_before_control_came_to_them_are_dropped(tmp_path: Path) -> None:
    stage = Stage(tmp_path, settings={"kbroker.audit.log.dir": str(tmp_path / "audit")})
    served: list[int] = []
    seen = m.AuditEvent(1, "login", "User:late", "127.0.0.1", 1, "PLAINTEXT", "LOGIN", False)
    requested = client_request(ApiKey.METADATA, 2, b"")
    frame = encode_request(ApiKey.METADATA, 2, 7, "raw", MetadataRequest(None))
    abandoned_socket(
        stage.control_sockets,
        pack(1, client_request(ApiKey.METADATA, 1, b"")),
        frame_block(pack_request(-1, pack_peer(peer_of(requested)), frame[4:])),
        pack(0, m.AuditEvents((seen,))),
    )

    async def scene(stage: Stage) -> None:
        network = await stage.network()
        assert await network.link.call(client_request(ApiKey.METADATA, 3, b"")) == b"answer"

    def answer(client: m.ClientRequest) -> bytes:
        served.append(client.api_version)
        return b"answer"

    play(stage, scene, answer)
    assert served == [3]
    assert "User:late" in (tmp_path / "audit" / "audit.log").read_text()


def test_a_coordinator_topic_that_a_client_created_or_grew_is_loaded(tmp_path: Path) -> None:
    machine = Machine()

    async def scene(stage: Stage) -> None:
        await stage.worker(0)
        await until(lambda: stage.ready)
        await create_topics(stage.broker, [NewTopic("other", 2), NewTopic(TOPIC, 2)])
        await until(lambda: machine.loads == [0, 1])
        await grow_topic(stage.broker, TOPIC, 3)
        await until(lambda: machine.loads == [0, 1, 2])

    play(Stage(tmp_path), scene, coordinators=coordinator_of(machine))


def test_replication_hears_of_a_worker_that_is_lost_and_of_its_successor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[tuple[str, int]] = []

    async def lost(_: Replication, worker: int) -> None:
        events.append(("lost", worker))

    async def returned(_: Replication, worker: int) -> None:
        events.append(("returned", worker))

    monkeypatch.setattr(Replication, "worker_lost", lost)
    monkeypatch.setattr(Replication, "worker_returned", returned)

    async def scene(stage: Stage) -> None:
        first = await stage.worker(0)
        await until(lambda: stage.ready)
        first.link.close()
        await until(lambda: events == [("lost", 0)])
        await stage.worker(0)
        await until(lambda: events == [("lost", 0), ("returned", 0)])

    play(Stage(tmp_path), scene)
    assert len(events) == 2, "the stop loses no worker"


def test_coordinators_hear_of_closed_connections(tmp_path: Path) -> None:
    async def scene(stage: Stage) -> None:
        closed: list[int] = []
        stage.broker.listeners.connection.append(closed.append)
        network = await stage.network()
        network.link.send(m.ConnectionClosed(7))
        await until(lambda: closed == [7])

    play(Stage(tmp_path), scene)


def test_control_reports_that_every_log_is_open(tmp_path: Path) -> None:
    async def scene(stage: Stage) -> None:
        line = stage.shared.processes[stage.shared.control_client]
        await stage.worker(0)
        await asyncio.sleep(0.01)
        assert line[ProcessLine.LOGS_OPEN] == 0
        await stage.worker(1)
        await until(lambda: line[ProcessLine.LOGS_OPEN] == EPOCH)

    play(Stage(tmp_path, workers=2), scene)


def test_a_network_process_gets_the_verdict_on_a_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def verify(_: object, message: m.VerifyTransaction) -> tuple[tuple[int, str | None], ...]:
        return ((message.producer_epoch, "text"),)

    monkeypatch.setattr(worker, "verify", verify)

    async def scene(stage: Stage) -> None:
        network = await stage.network()
        found = await network.link.call(m.VerifyTransaction("id", 1, 5, (("t", 0),), 12))
        assert [tuple(each) for each in found] == [(5, "text")]

    play(Stage(tmp_path), scene)


def test_a_store_that_fails_ends_the_start_with_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def build(*_: object) -> NoReturn:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(state, "build", build)
    for name in ("advertised_endpoints", "site_endpoints"):
        monkeypatch.setattr(worker, name, lambda _: {})
    nothing: Any = None
    context: Any = SimpleNamespace(
        shared=None, config=None, cluster_id="", log_dirs=(str(tmp_path),), directory_ids={}, clean_dirs=()
    )
    with pytest.raises(SystemExit) as end:
        worker.main(context, nothing, nothing)
    assert end.value.code == EXIT_CANNOT_START
    assert caplog.messages == [f"the store failed, kbroker.db in {tmp_path}: database or disk is full"]
    assert caplog.records[0].exc_info is None
