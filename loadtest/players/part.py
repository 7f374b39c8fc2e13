"""The part of a player (its instructions), and the base class of all players."""

import json
import os
import random
import resource
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from loadtest.clock import Clock
from loadtest.page import Page, Slot
from loadtest.players.connections import reset_connections
from loadtest.run import ConsumerClient, ProducerClient, Run, save_client
from loadtest.settings import Settings, from_json
from loadtest.writer import HistoryWriter

QUICK = {
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 500,
    "socket.connection.setup.timeout.ms": 5000,
    "topic.metadata.refresh.interval.ms": 30_000,
    "log_level": 0,
}


@dataclass(slots=True)
class Part:
    """A player's part: passed as JSON on its command line."""

    role: str  # produce | transact | copy | consume | drain
    mode: str  # of the topic it writes, or reads
    folder: str
    page: str
    run: int
    bootstrap: str
    topics: dict[str, str]  # mode -> name
    settings: dict[str, Any]
    rate: float  # of this player, if it is a producer
    begin_ns: int
    clock_offset_ns: int
    boot: str
    label: str  # transactional id, group instance: stable over lives

    @classmethod
    def of_run(
        cls, folder: Path, run: Run, role: str, mode: str, label: str, page: Path, clock: Clock, begin_ns: int
    ) -> "Part":
        """A part in a run; its rate is an even share of the run's."""
        settings = from_json(run.settings)
        return cls(
            role=role,
            mode=mode,
            folder=str(folder),
            page=str(page),
            run=run.run,
            bootstrap=run.bootstrap,
            topics={topic.mode: topic.name for topic in run.topics},
            settings=run.settings,
            rate=settings.rate / settings.producers,
            begin_ns=begin_ns,
            clock_offset_ns=clock.offset_ns,
            boot=clock.boot,
            label=label,
        )

    def to_json(self) -> str:
        return json.dumps(asdict(self))


class Player:
    """Base of all players. Runs in: its own process. `turn` is called until the user wants it to
    stop."""

    def __init__(self, part: Part) -> None:
        self.part = part
        self.settings: Settings = from_json(part.settings)
        self.folder = Path(part.folder)
        self.page = Page(Path(part.page))
        self.clock = Clock(part.clock_offset_ns, part.boot)
        self.random = random.Random(f"{self.settings.seed} {part.role} {part.label}")
        self._parent = os.getppid()
        self._resets = self.page[Slot.RESETS]
        self._next_look = 0.0
        self._histories: list[HistoryWriter] = []

    @property
    def stopping(self) -> bool:
        """Whether the user has requested a stop, or has ended."""
        return self.page[Slot.STOP] != 0 or os.getppid() != self._parent

    def look_around(self) -> None:
        """Heartbeat, CPU, resets that were asked for; at most every 50 ms, so it may be called in a
        loop."""
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + 0.05
        usage = resource.getrusage(resource.RUSAGE_SELF)
        of_histories = sum(history.cpu_ns for history in self._histories)
        self.page[Slot.CPU_NS] = int((usage.ru_utime + usage.ru_stime) * 1e9) + of_histories
        self.page[Slot.HEARTBEAT_NS] = time.monotonic_ns()
        if self.page[Slot.RESETS] != self._resets:
            self._resets = self.page[Slot.RESETS]
            reset_connections(int(self.part.bootstrap.rpartition(":")[2]))

    def play(self) -> None:
        """The whole part, until stopped."""
        raise NotImplementedError

    def keep_history(self, name: str) -> HistoryWriter | None:
        """The history of one client life, which closes it; None if histories are off. Its CPU time
        counts as the player's."""
        if not self.settings.history:
            return None
        self._histories.append(HistoryWriter(self.folder, name))
        return self._histories[-1]

    def new_number(self, role: str) -> int:
        """A client id that is unique in the run: the player that creates its file first owns it."""
        folder = self.folder / "clients"
        folder.mkdir(parents=True, exist_ok=True)
        number = 1 + sum(1 for _ in folder.glob(f"{role[0]}[0-9]*.id"))
        while True:
            try:
                os.close(os.open(folder / f"{role[0]}{number:06d}.id", os.O_CREAT | os.O_EXCL))
                return number
            except FileExistsError:
                number += 1

    def register(self, name: str, client: ProducerClient | ConsumerClient) -> None:
        save_client(self.folder, name, client)
