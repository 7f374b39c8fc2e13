"""Waiting for topics that are created in the background."""

import asyncio

from kbroker.control.broker import Broker


async def until_created(broker: Broker, *names: str) -> None:
    """Wait until topics are there; fails after ten seconds."""
    async with asyncio.timeout(10):
        while not broker.catalogue.topics.keys() >= set(names):
            await asyncio.sleep(0.001)
