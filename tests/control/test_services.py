"""The coordinators of control have the broker's settings."""

import asyncio
from pathlib import Path
from typing import Any, cast

from kbroker.control.links.appender import DEFAULT_TIMEOUT_MS
from kbroker.control.services import Services, make_coordinators
from tests.control.coordinator.runtime_scene import Log
from tests.control.fakes import world


class Listening(Log):
    """A log that nothing listens to."""

    def __init__(self) -> None:
        super().__init__()
        self.slot_listeners: list[object] = []


def test_writes_of_groups_and_of_share_state_have_their_own_timeouts(tmp_path: Path) -> None:
    settings = {"offsets.commit.timeout.ms": "111", "share.coordinator.write.timeout.ms": "222"}

    async def timeouts(broker: Any) -> list[int]:
        made = make_coordinators(Services(broker), cast(Any, Listening()), lambda slot: None)
        for runtime in made:
            runtime.close()
        return [runtime.timeout_ms for runtime in made]

    with world(tmp_path, settings) as made:
        assert asyncio.run(timeouts(made.broker)) == [111, DEFAULT_TIMEOUT_MS, 222]
