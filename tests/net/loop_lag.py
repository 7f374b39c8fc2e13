"""A network process whose event loop measures the CPU time of its callbacks, so that a busy host
changes nothing."""

import asyncio
import asyncio.events
import mmap
import struct
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from kbroker.ipc.child import ChildContext
from kbroker.net import worker as net_worker
from tests.callbacks import Tries
from tests.net.doubles import NetNode

LONGEST = struct.Struct("q")


class LagNode(NetNode):
    """As NetNode; `longest_ms` returns the longest callback since its last call."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._shared_ns = mmap.mmap(-1, LONGEST.size)

    def serve(self, context: ChildContext) -> None:
        run, room = asyncio.events.Handle._run, self._shared_ns

        def timed(handle: Any) -> None:
            began_ns = time.thread_time_ns()
            run(handle)
            spent_ns = time.thread_time_ns() - began_ns
            if spent_ns > LONGEST.unpack_from(room)[0]:
                LONGEST.pack_into(room, 0, spent_ns)

        asyncio.events.Handle._run = timed  # type: ignore[method-assign, assignment]
        vars(net_worker)["uvloop"] = SimpleNamespace(run=asyncio.run)
        super().serve(context)

    def check_longest_ms(self, most_ms: float, work: Callable[[], object]) -> None:
        """Fails if a callback of the work takes longer in each try."""
        tries = Tries(most_ms)
        while tries.needed():
            self.longest_ms()
            work()
            tries.add(self.longest_ms())
        tries.check()

    def longest_ms(self) -> float:
        found = LONGEST.unpack_from(self._shared_ns)[0] / 1e6
        LONGEST.pack_into(self._shared_ns, 0, 0)
        return float(found)
