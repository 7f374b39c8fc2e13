"""The group coordinator at work."""

import asyncio
from pathlib import Path

from kbroker.control.metadata.config_resource import GROUP as GROUP_RESOURCE
from tests.control.fakes import world
from tests.control.groups.commit_scene import GROUP, Scene


def test_a_groups_own_setting_outside_of_the_brokers_bounds_is_cut(tmp_path: Path) -> None:
    """Also one that was stored before the bounds became narrower."""
    name = "consumer.session.timeout.ms"

    async def test() -> None:
        with world(tmp_path, {"group.consumer.max.session.timeout.ms": "50000"}) as made:
            made.broker.overrides[GROUP_RESOURCE, GROUP] = {name: "59000"}
            scene = Scene(made)
            assert scene.shard.table.overrides.number(GROUP, name, 45_000) == 50_000
            made.broker.overrides[GROUP_RESOURCE, GROUP] = {name: "48000"}
            scene.service.config_changed(GROUP_RESOURCE, GROUP)
            assert scene.shard.table.overrides.number(GROUP, name, 45_000) == 48_000
            scene.runtime.close()

    asyncio.run(test())
