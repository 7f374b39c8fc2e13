"""Coordinators load their partitions when the logs are open, and not before."""

import asyncio
from pathlib import Path

import pytest

from kbroker.control import io_workers
from kbroker.control.changes.topic_change import create_topics
from kbroker.control.metadata.topic_plan import NewTopic
from kbroker.ipc.layout import ProcessLine
from tests.control.control_scene import Stage, coordinator_of, play
from tests.control.coordinator.runtime_scene import TOPIC, Machine
from tests.control.links.append_rings import until


def test_a_successor_loads_when_its_workers_have_opened_the_internal_logs(tmp_path: Path) -> None:
    """A log that is not open looks empty: what was committed would be forgotten."""
    stage, machine = Stage(tmp_path), Machine()

    async def first(stage: Stage) -> None:
        await stage.worker(0)
        await until(lambda: stage.ready)
        await create_topics(stage.broker, [NewTopic(TOPIC, 2)])

    async def second(stage: Stage) -> None:
        await stage.network()
        await asyncio.sleep(0.05)
        assert machine.loads == []
        await stage.worker(0)
        await until(lambda: machine.loads == [0, 1])

    play(stage, first)
    stage.shared.processes[stage.shared.control_client, ProcessLine.READY] = 0
    stage.broker = stage.build()
    play(stage, second, coordinators=coordinator_of(machine))


def left_by_a_predecessor(stage: Stage, partitions: int) -> None:
    """Both IO workers have logs of the topic, and control starts again."""

    async def first(stage: Stage) -> None:
        for number in range(len(stage.workers)):
            await stage.worker(number)
        await until(lambda: stage.ready)
        await create_topics(stage.broker, [NewTopic(TOPIC, partitions)])

    play(stage, first)
    stage.shared.processes[stage.shared.control_client, ProcessLine.READY] = 0
    stage.broker = stage.build()


def partitions_of(stage: Stage, worker: int) -> list[int]:
    return [each.index for each in stage.broker.catalogue.topics[TOPIC].partitions if each.worker == worker]


def test_partitions_are_loaded_when_their_own_worker_has_opened_its_logs(tmp_path: Path) -> None:
    """One slow disk held up the coordinators of all partitions."""
    stage, machine = Stage(tmp_path, workers=2), Machine()

    async def second(stage: Stage) -> None:
        await stage.worker(1)
        own = partitions_of(stage, 1)
        assert 0 < len(own) < 4
        await until(lambda: machine.loads == own)
        await asyncio.sleep(0.05)
        assert (machine.loads, stage.ready) == (own, False)
        await stage.worker(0)
        await until(lambda: stage.ready)
        assert machine.loads == own + partitions_of(stage, 0)

    left_by_a_predecessor(stage, 4)
    play(stage, second, coordinators=coordinator_of(machine))


def test_a_start_does_not_wait_for_ever_for_a_worker_that_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its supervisor would end the start."""
    monkeypatch.setattr(io_workers, "LATE_S", 0.01)
    stage, machine = Stage(tmp_path, workers=2), Machine()

    async def second(stage: Stage) -> None:
        await stage.worker(0)
        await until(lambda: stage.ready)
        assert machine.loads == partitions_of(stage, 0)
        await stage.worker(1)
        await until(lambda: sorted(machine.loads) == [0, 1, 2, 3])

    left_by_a_predecessor(stage, 4)
    play(stage, second, coordinators=coordinator_of(machine))
