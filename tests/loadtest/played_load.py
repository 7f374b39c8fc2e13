"""A load test that a test conducts itself: its clients may go from one cluster to another, as those
of a move do. One run, one history."""

import json
import subprocess
import sys
from itertools import chain
from pathlib import Path

from loadtest.conductor import Conductor
from loadtest.page import Page, Slot
from loadtest.players.part import Part
from loadtest.run import save_run
from loadtest.settings import Settings

LEAVE, CATCH_UP = 1, 2
END_S = 120


class PlayedLoad:
    """A producer and a consumer of each topic of a run that a judge can judge. The test that starts
    them stops them."""

    def __init__(self, folder: Path, bootstrap: str, settings: Settings) -> None:
        self.folder = folder
        self.settings = settings
        self.conductor = Conductor(folder, settings, bootstrap, None, [])
        self.conductor.run.faults = 0
        self.conductor.prepare()
        self._players: dict[str, list[tuple[subprocess.Popen[bytes], Page]]] = {}
        self._started = 0

    def start(self) -> None:
        """At the cluster of the run."""
        for mode in self.settings.modes():
            self._start("consume", "consume", mode)
            self._start("produce", "transact" if mode == "transactional" else "produce", mode)

    def _start(self, kind: str, role: str, mode: str) -> None:
        run, clock = self.conductor.run, self.conductor.clock
        self._started += 1
        path = self.folder / "pages" / f"{role}-{mode}-{self._started}.page"
        page = Page(path, create=True)
        part = Part.of_run(self.folder, run, role, mode, f"{role}-{mode}", path, clock, clock.now_ns())
        with open(self.folder / "players.log", "ab") as log:
            command = [sys.executable, "-m", "loadtest.players", part.to_json()]
            player = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self._players.setdefault(kind, []).append((player, page))

    def acknowledged(self) -> int:
        """Records of the slowest producer."""
        return min(page[Slot.ACKED] for _, page in self._players["produce"])

    def seen(self) -> int:
        """Records of the slowest consumer."""
        return min(page[Slot.SEEN] for _, page in self._players["consume"])

    def stop(self, kind: str, words: int = LEAVE) -> None:
        """`produce`: what was sent is acknowledged. `consume`: what was read is committed; with
        CATCH_UP they read to the end first."""
        for _, page in self._players[kind]:
            page[Slot.STOP] = words
        for player, page in self._players.pop(kind):
            player.wait(END_S)
            assert page[Slot.DONE], (self.folder / "players.log").read_text()[-3000:]

    def kill(self) -> None:
        """Ends whatever still runs, after a test that failed."""
        for player, _ in chain.from_iterable(self._players.values()):
            player.kill()
            player.wait()

    def note_fault(self, kind: str, target: str) -> None:
        """The judge has to know that the run was not calm."""
        now_ns = self.conductor.clock.now_ns()
        row = {"kind": kind, "target": target, "begin_ns": now_ns, "end_ns": now_ns, "outcome": "done"}
        with open(self.folder / "faults.jsonl", "a") as faults:
            faults.write(json.dumps(row) + "\n")
        self.conductor.run.faults = (self.conductor.run.faults or 0) + 1

    def go_to(self, bootstrap: str) -> None:
        """The players that start from now on, and the last readers, are clients of this cluster."""
        self.conductor.run.bootstrap = bootstrap
        save_run(self.folder, self.conductor.run)

    def finish(self) -> bool:
        """Ends the run; reads every record where the clients are now. Whether all were read."""
        self.conductor.run.ended_ns = self.conductor.clock.now_ns()
        return self.conductor.drain()
