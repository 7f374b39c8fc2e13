"""`python -m bench.busy_poll [ROUNDS]`: how long an ack of acks=1 takes with one record in flight,
with and without processes that poll (kbroker.busy.poll.*), and what the scheduler has to do with
it.

Each round is a second of every arrangement in turn, so what disturbs the machine disturbs all. An
arrangement says who polls and on which cores: two cores are too few for a client, a network process
and an IO worker that all poll.
"""

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import psutil

from bench.generator import Generator, compile_generator, find_librdkafka
from bench.size import QUICK
from bench.targets import KbrokerTarget
from bench.turn import Turn

ROUNDS = 8
SECONDS, WARM_SECONDS = 1.0, 0.2
POLL_US = 5000
RATE = 1000
CLIENT = "client"
ROLES = ("network", "io")


@dataclass(frozen=True)
class Arrangement:
    """polls: roles that poll, or CLIENT. cores: by role, all without one."""

    title: str
    polls: frozenset[str] = frozenset()
    cores: Mapping[str, int] = field(default_factory=dict)


def _arrangement(title: str, *polls: str, **cores: int) -> Arrangement:
    return Arrangement(title, frozenset(polls), cores)


ARRANGEMENTS = (
    _arrangement("all sleep"),
    _arrangement("network polls", "network"),
    _arrangement("IO polls", "io"),
    _arrangement("network and IO poll", "network", "io"),
    _arrangement(
        "the same, network on core 0, IO and client on 1", "network", "io", network=0, io=1, client=1
    ),
    _arrangement("the same, both on core 0, client on 1", "network", "io", network=0, io=0, client=1),
    _arrangement("client polls", CLIENT),
    _arrangement("network, IO and client poll", "network", "io", CLIENT),
    _arrangement(
        "the same, network and IO on core 0, client on 1", "network", "io", CLIENT, network=0, io=0, client=1
    ),
)


@dataclass(frozen=True)
class Switches:
    """Voluntary context switches of a process, and the ns that it was runnable without a core."""

    sleeps: int
    waited_ns: int

    @staticmethod
    def of(pid: int) -> "Switches":
        status = Path(f"/proc/{pid}/status").read_text()
        sleeps = next(line for line in status.splitlines() if line.startswith("voluntary_ctxt"))
        return Switches(int(sleeps.split()[1]), int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]))


class Broker:
    """A running kbroker, one process of each kind. polls: the roles that do."""

    def __init__(self, folder: Path, generator: Generator, polls: frozenset[str]) -> None:
        folder.mkdir()
        self.target = KbrokerTarget(folder, generator)
        self.target.extra = {
            "num.network.threads": "1",
            "num.io.threads": "1",
            **{f"kbroker.busy.poll.{role}.us": str(POLL_US) for role in polls},
        }
        self.target.launch()
        self.target.wait_ready()
        children = psutil.Process(self.target.pid).children(recursive=True)
        titles = {" ".join(child.cmdline()): child.pid for child in children}
        self.pids = {
            role: next(pid for title, pid in titles.items() if f" {role} " in title) for role in ROLES
        }

    def switches(self) -> dict[str, Switches]:
        return {role: Switches.of(pid) for role, pid in self.pids.items()}


@contextmanager
def placed(broker: Broker, cores: Mapping[str, int]) -> Iterator[None]:
    """The processes on their cores until the end of the block; children of this one, too."""
    every = os.sched_getaffinity(0)
    processes = {**broker.pids, CLIENT: 0}
    try:
        for role, pid in processes.items():
            os.sched_setaffinity(pid, {cores[role]} if role in cores else every)
        yield
    finally:
        for pid in processes.values():
            os.sched_setaffinity(pid, every)


def measure(broker: Broker, arrangement: Arrangement, topic: str) -> dict[str, float]:
    """µs of an ack; and of each role, sleeps and µs of waiting for a core, by ack. Then µs of an
    ack at RATE."""
    seen: list[dict[str, Switches]] = []
    run = broker.target.generator.run
    load: dict[str, object] = {
        "port": broker.target.port, "topic": topic, "connections": 1, "acks": 1, "warm": WARM_SECONDS,
        "seconds": SECONDS,
    }  # fmt: skip
    with placed(broker, arrangement.cores):
        closed = {"in_flight": 1, "busy_poll": int(CLIENT in arrangement.polls)}
        answer = run("produce", load | closed, lambda _: seen.append(broker.switches()))
        paced = run("paced", load | {"rate": RATE}) if CLIENT not in arrangement.polls else None
    found = {name: float(answer["latency_us"][name]) for name in ("p50", "p99")}
    for role in ROLES:
        before, after = seen[0][role], seen[1][role]
        found[f"{role} sleeps"] = (after.sleeps - before.sleeps) / answer["requests"]
        found[f"{role} waits"] = (after.waited_ns - before.waited_ns) / answer["requests"] / 1000
    if paced is not None:
        found["paced"] = float(paced["latency_us"]["p50"])
    return found


def main(rounds: int) -> None:
    """Print the median and the least p50 of all rounds, and medians of the rest."""
    generator = Generator(compile_generator(), find_librdkafka())
    found: dict[str, list[dict[str, float]]] = {arrangement.title: [] for arrangement in ARRANGEMENTS}
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder, ExitStack() as stack:
        brokers: dict[frozenset[str], tuple[Broker, str]] = {}
        for arrangement in ARRANGEMENTS:
            polls = arrangement.polls & set(ROLES)
            if polls not in brokers:
                broker = Broker(Path(folder, "-".join(sorted(polls)) or "none"), generator, polls)
                stack.callback(broker.target.stop)
                brokers[polls] = broker, Turn(broker.target, generator, QUICK, 1, set()).topic("acks", 1)
        for number in range(rounds):
            for arrangement in ARRANGEMENTS[:: -1 if number % 2 else 1]:
                broker, topic = brokers[arrangement.polls & set(ROLES)]
                found[arrangement.title].append(measure(broker, arrangement, topic))
    print(f"acks=1, one record in flight; {rounds} rounds of {SECONDS:g} s; {os.cpu_count()} cores")
    print(
        f"| arrangement | p50, µs (best) | p99, µs (best) | p50 at {RATE}/s, µs (best) "
        "| sleeps by ack (network, IO) | waits for a core, µs |"
    )
    print("|---|---|---|---|---|---|")
    for title, samples in found.items():
        print(f"| {title} | {row(samples)} |")


def row(samples: list[dict[str, float]]) -> str:
    """The figures of an arrangement."""
    one = {name: median(sample[name] for sample in samples) for name in samples[0]}
    least = {name: min(sample[name] for sample in samples) for name in one}
    times = [
        f"{one[name]:.0f} ({least[name]:.0f})" if name in one else "" for name in ("p50", "p99", "paced")
    ]
    sleeps = ", ".join(f"{one[f'{role} sleeps']:.2f}" for role in ROLES)
    waits = ", ".join(f"{one[f'{role} waits']:.1f}" for role in ROLES)
    return " | ".join((*times, sleeps, waits))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)
