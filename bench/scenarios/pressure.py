"""Produce under pressure: by a small client beside a greedy one, and by many busy connections
beside more idle ones."""

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

from bench import limits
from bench.scenario import Measure, Scenario, client_cpu, cpu_per_message, latency, rate
from bench.turn import Measures, Turn

GREEDY = {"connections": 50, "in_flight": 5, "value_bytes": 1000}
MODEST_PER_SECOND = 200
BUSY = 1000
IDLE = 5000


def fairness(turn: Turn) -> Measures:
    """One client sends as fast as it is answered; what counts is how long the other one waits."""
    greedy, modest = turn.topic("greedy", 8), turn.topic("modest", 1)
    size = turn.size
    seconds = size.warm_seconds + 0.9 * size.seconds  # so that the last of the modest one are answered, too
    options = {"port": turn.target.port, "topic": greedy, **GREEDY, "warm": 0, "seconds": seconds}
    with ThreadPoolExecutor(1) as beside:
        answer = beside.submit(turn.generator.run, "produce", options)
        load = turn.load("paced", topic=modest, rate=MODEST_PER_SECOND, connections=2, **turn.timed())
        greedy_answer = answer.result()
    return {
        **load.latency(),
        **load.lateness(),
        "greedy_rate": float(greedy_answer["requests"]) / float(greedy_answer["seconds"]),
    }


@contextmanager
def idle_connections(port: int, count: int) -> Iterator[None]:
    """Connections that say nothing."""
    with ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        yield


def crowd(turn: Turn) -> Measures:
    """Many connections at work while five times as many wait."""
    topic = turn.topic("crowd", 8)
    with idle_connections(turn.target.port, IDLE):
        load = turn.load("produce", topic=topic, connections=BUSY, value_bytes=100, **turn.timed())
    return {**load.rate("requests"), **load.latency(), "pss_mb": load.broker_pss / 1e6}


SCENARIOS = (
    Scenario(
        "fairness",
        f"a modest client ({MODEST_PER_SECOND}/s) beside a greedy one (50 x 5 in flight)",
        (
            latency("p50"),
            latency("p99"),
            Measure("late_p99_ms", "of it sent late by the generator, p99", "ms", "lower"),
            Measure("greedy_rate", "the greedy client", "requests/s", "higher"),
        ),
        fairness,
        kind="produce",
    ),
    Scenario(
        "crowd",
        "1,000 busy connections beside 5,000 idle ones",
        (
            rate(unit="requests/s"),
            cpu_per_message(None, "request"),
            latency("p99"),
            Measure("pss_mb", "memory (PSS)", "MB", "lower"),
            client_cpu(),
        ),
        crowd,
        kind="produce",
        limit=limits.echo(),
    ),
)
