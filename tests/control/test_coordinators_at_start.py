"""Coordinators load their partitions when the logs are open, and not before."""

import asyncio
from pathlib import Path

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
