"""The names of hosts that can be resolved. A slow resolver delays only the caller, and not for
long."""

import asyncio
import socket
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

DEADLINE_S: Final = 5.0
"""Maximum time to resolve all names of one caller."""
THREADS: Final = 2
"""A resolver that does not answer keeps its thread; other work has threads of its own."""


class HostNames:
    """Runs in: control. Owner: the Broker. Starts its threads for the first name."""

    def __init__(self, deadline_s: float = DEADLINE_S) -> None:
        self._deadline_s = deadline_s
        self._threads = ThreadPoolExecutor(THREADS, "host names")

    async def unresolved(self, names: Iterable[str]) -> frozenset[str]:
        """The names that have no address, or none before the deadline."""
        left = dict.fromkeys(names)  # each is resolved once
        if not left:
            return frozenset()
        loop = asyncio.get_running_loop()
        ends_s = loop.time() + self._deadline_s
        for name in list(left):
            asking = loop.run_in_executor(self._threads, partial(socket.getaddrinfo, name, None))
            try:
                async with asyncio.timeout_at(ends_s):
                    await asking
            except TimeoutError:
                break
            except (OSError, UnicodeError):
                continue
            del left[name]
        return frozenset(left)
