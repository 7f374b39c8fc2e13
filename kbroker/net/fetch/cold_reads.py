"""Reads of fetched bytes that are not in the page cache: an IO worker reads them first, so that no
send blocks the event loop.

Runs in: network. Owner: the process.
"""

import asyncio
import time
from collections.abc import Callable, Sequence

from kbroker.ipc.layout import AppendEntry, Operation, ProcessLine, Slot
from kbroker.ipc.ring import ring_push, wake_process
from kbroker.ipc.shared import Shared
from kbroker.net.fetch.partition_reader import Reading
from kbroker.net.fetch.residency import Probe
from kbroker.net.rows import Token, signed
from kbroker.protocol.slices import paced

PATIENCE_SECONDS = 10.0  # the request is lost when the IO worker dies


class Wait:
    """Ranges of one answer that are being read; ``then`` is called once."""

    __slots__ = ("_left", "_then", "_timer")

    def __init__(self, count: int, then: Callable[[], None]) -> None:
        self._left = count
        self._then = then
        self._timer = asyncio.get_running_loop().call_later(PATIENCE_SECONDS, self._give_up)

    def one_less(self) -> None:
        """A range has been read, or will not be read any more."""
        self._left -= 1
        if self._left == 0:
            self._timer.cancel()
            self._then()

    def _give_up(self) -> None:
        if self._left > 0:
            self._left = 0
            self._then()


class ColdReads:
    """probe(fd, position, length): whether the range is in the page cache."""

    def __init__(self, shared: Shared, client: int, probe: Probe) -> None:
        self._shared = shared
        self._client = client
        self._probe = probe
        self._waits: dict[int, Wait] = {}  # by token
        self._next_token = 0
        self._entry = AppendEntry.row()

    def of(self, selected: Sequence[tuple[object, Reading]]) -> list[Reading]:
        """The readings whose bytes are not in the page cache. selected: pairs of a partition and
        its reading."""
        return [
            reading
            for _, reading in paced(selected)
            if reading.range is not None
            and not self._probe(reading.range.file.fd, reading.range.position, reading.range.length)
        ]

    def read(self, cold: Sequence[Reading], then: Callable[[], None]) -> None:
        """Request the reads; ``then`` is called when all have ended."""
        wait = Wait(len(cold), then)
        for reading in cold:
            if not self._ask(reading, wait):
                wait.one_less()

    def _ask(self, reading: Reading, wait: Wait) -> bool:
        found, place = reading.range, reading.place
        assert found is not None
        assert place is not None
        worker = int(self._shared.slots[reading.slot, Slot.OWNER])
        number = self._next_token
        self._next_token = (number + 1) & 0xFFFFFFFF
        epoch = int(self._shared.processes[self._client, ProcessLine.EPOCH]) & 0xFFFF
        entry = self._entry
        entry[AppendEntry.OPERATION] = Operation.READ_AHEAD
        entry[AppendEntry.SLOT] = reading.slot
        entry[AppendEntry.GENERATION] = place.segment_base
        entry[AppendEntry.ADDRESS] = found.position
        entry[AppendEntry.LENGTH] = found.length
        entry[AppendEntry.TOKEN] = signed(epoch << AppendEntry.TOKEN_EPOCH_SHIFT | Token.READ_AHEAD | number)
        entry[AppendEntry.NANOSECONDS] = time.monotonic_ns()
        ring = self._shared.append_ring(self._client, worker)
        if not ring_push(ring, self._shared.sizes.ring_entries, entry):
            return False
        self._waits[number] = wait
        wake_process(self._shared, self._shared.worker_process(worker))
        return True

    def on_read(self, token: int) -> None:
        """An IO worker has read a range."""
        wait = self._waits.pop(token & (Token.READ_AHEAD - 1), None)
        if wait is not None:
            wait.one_less()
