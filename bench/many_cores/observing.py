"""CPU of a piece of work by role, of a kbroker with so many processes of each kind."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.generator import Generator
from bench.many_cores.model import CONTROL, IO, NETWORK, PARENT, Counts, Observation
from bench.measure import process_seconds, tree_pids
from bench.run import running
from bench.scenarios import groups
from bench.size import Size
from bench.targets import KbrokerTarget
from bench.turn import Load, Turn

PARTITIONS = 16
FILLED_PARTITIONS = 8
"""Partitions of the topic that is read: one for each connection that writes it."""
CONNECTIONS = 5000
GROUPS = 5
"""Groups of 20 members for each network process."""
MEGABYTE = 1 << 20
SETTLE_SECONDS = 12
"""After a start the parent imports what a restarted child will need."""
TITLES = {"kbroker: network": NETWORK, "kbroker: io": IO, "kbroker: control": CONTROL}


@dataclass
class RoleTurn(Turn):
    """A turn that keeps its last load, and the CPU of it by role."""

    roles: dict[str, float] = field(default_factory=dict)
    latest: Load | None = None

    def load(self, command: str, **options: object) -> Load:
        """As `Turn.load`, with the CPU by role."""
        before: dict[str, float] = {}
        self.last = command, options

        def on_event(event: str) -> None:
            nonlocal before
            spent = role_seconds(self.target.pid)
            if event == "begin":
                before = spent
            elif event == "end":
                self.roles = {role: spent[role] - before.get(role, 0.0) for role in spent}

        answer = self.generator.run(command, {"port": self.target.port, **options}, on_event)
        self.target.check_alive()
        self.latest = Load(answer, sum(self.roles.values()), 0)
        return self.latest


@dataclass(frozen=True)
class Work:
    """One kind of work. run: does it once, on connections that keep so many network processes
    busy. pieces: of a load's answer."""

    name: str
    title: str
    piece: str
    run: Callable[[RoleTurn, Counts], object]
    pieces: Callable[[Mapping[str, Any]], float]


def role_of(title: str) -> str:
    """A process's role by its title; what is none of the roles that grow is the parent's."""
    return next((role for start, role in TITLES.items() if title.startswith(start)), PARENT)


def role_seconds(pid: int) -> dict[str, float]:
    """CPU seconds of the tree by role."""
    found = dict.fromkeys((NETWORK, IO, CONTROL, PARENT), 0.0)
    for each in tree_pids(pid):
        try:
            title = Path(f"/proc/{each}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except FileNotFoundError:
            continue
        found[role_of(title)] += process_seconds(each)
    return found


def single_records(turn: RoleTurn, counts: Counts) -> None:
    """One record a request, 50 connections with 5 requests in flight for each network process."""
    topic = turn.topic("single", PARTITIONS)
    connections = 50 * counts.network
    turn.load("produce", topic=topic, connections=connections, in_flight=5, value_bytes=100, **turn.timed())


def batches(turn: RoleTurn, counts: Counts) -> None:
    """Batches of 64 KB; a piece is a MiB."""
    topic = turn.topic("batches", PARTITIONS)
    connections, max_bytes = 8 * counts.network, turn.size.produced_bytes
    turn.load(
        "produce",
        topic=topic,
        connections=connections,
        records=62,
        value_bytes=1024,
        max_bytes=max_bytes,
        **turn.timed(),
    )


def fetches(turn: RoleTurn, counts: Counts) -> None:
    """Fetches of 4 KiB from the page cache."""
    size = turn.size.cached_bytes
    topic = turn.cached_topic(
        "fetched", FILLED_PARTITIONS, lambda name: turn.fill(name, size, 4, value_bytes=970)
    )
    connections = 50 * counts.network
    turn.load("fetch", topic=topic, connections=connections, max_bytes=4096, verify_every=64, **turn.timed())


def commits(turn: RoleTurn, counts: Counts) -> None:
    """Commits of 100 members for each network process."""
    groups.commits_of(turn, GROUPS * counts.network)


def connections(turn: RoleTurn, counts: Counts) -> None:
    """New connections, each with one request, 32 at a time for each network process."""
    turn.load("connections", connections=CONNECTIONS, window=32 * counts.network)


def requests(answer: Mapping[str, Any]) -> float:
    return float(answer["requests"])


def megabytes(answer: Mapping[str, Any]) -> float:
    return float(answer["bytes"]) / MEGABYTE


WORKS = (
    Work("single_records", "produce, one record a request", "request", single_records, requests),
    Work("batches", "produce, batches of 64 KB", "MiB", batches, megabytes),
    Work("fetches", "fetch of 4 KiB", "request", fetches, requests),
    Work("commits", "commits of 100 members a network process", "commit", commits, requests),
    Work("connections", "new connections", "connection", connections, lambda _: CONNECTIONS),
)


def observe(work: Work, turn: RoleTurn, counts: Counts) -> Observation:
    """Does the work once."""
    work.run(turn, counts)
    turn.clean_up()
    assert turn.latest is not None
    answer = turn.latest.answer
    pieces = work.pieces(answer)
    cost = {role: seconds / pieces * 1e6 for role, seconds in turn.roles.items()}
    client_us = float(answer["client_cpu"]) / pieces * 1e6
    return Observation(counts, cost, client_us, pieces / turn.latest.seconds)


@contextmanager
def broker_with(counts: Counts, folder: Path, generator: Generator) -> Iterator[KbrokerTarget]:
    """A running kbroker with so many processes."""
    target = KbrokerTarget(folder, generator, "cubic")
    target.extra = {"num.network.threads": str(counts.network), "num.io.threads": str(counts.io)}
    folder.mkdir(parents=True, exist_ok=True)
    with running(target):
        yield target


def observe_all(
    counts: Counts, works: Sequence[Work], folder: Path, generator: Generator, size: Size
) -> Iterator[tuple[Work, Observation]]:
    """Every work once, on one broker."""
    with broker_with(counts, folder, generator) as target:
        time.sleep(SETTLE_SECONDS)
        kept: set[str] = set()
        for number, work in enumerate(works, 1):
            turn = RoleTurn(target, generator, size, number, kept)
            turn.sync()
            yield work, observe(work, turn, counts)
