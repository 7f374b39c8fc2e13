"""The acceptor is told its own dynamic settings, at first and once each time they change."""

import asyncio

from kbroker.ipc import fds
from kbroker.net.accept.news import AcceptorSettings


def test_only_its_own_settings_and_only_changes_are_sent() -> None:
    acceptor, process = fds.pair()

    async def story() -> None:
        told = AcceptorSettings(process)
        told.change({"compression.type": "lz4"})
        await asyncio.sleep(0)
        assert fds.receive_closed(acceptor) == fds.Settings({})  # a process that died may have told limits
        told.change({"compression.type": "zstd"})
        await asyncio.sleep(0)
        assert fds.receive_closed(acceptor) is None
        limits = {"max.connections": "5", "listener.name.plaintext.max.connections": "3"}
        told.change({"compression.type": "lz4", **limits})
        await asyncio.sleep(0)
        assert fds.receive_closed(acceptor) == fds.Settings(limits)
        told.change({"compression.type": "gzip", **limits})
        await asyncio.sleep(0)
        assert fds.receive_closed(acceptor) is None
        told.change({})
        await asyncio.sleep(0)
        assert fds.receive_closed(acceptor) == fds.Settings({})

    with acceptor, process:
        asyncio.run(story())
