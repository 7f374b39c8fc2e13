"""5,000 connections: the time until each has its ApiVersions answer, and the memory with all of
them open."""

from bench import limits
from bench.scenario import Measure, Scenario
from bench.turn import Measures, Turn

CONNECTIONS = 5000


def run(turn: Turn) -> Measures:
    load = turn.load("connections", connections=CONNECTIONS)
    return {
        "seconds": load.seconds,
        "cpu_us": load.broker_cpu / CONNECTIONS * 1e6,
        "pss_mb": load.broker_pss / 1e6,
        "client_cpu": float(load.answer["client_cpu"]) / CONNECTIONS * 1e6,
    }


SCENARIO = Scenario(
    "connections_5000",
    "open 5,000 connections",
    (
        Measure("seconds", "time", "s", "lower", 1.0),
        Measure("cpu_us", "broker CPU per connection", "µs", "lower"),
        Measure("pss_mb", "memory with them open (PSS)", "MB", "lower"),
        Measure("client_cpu", "load generator CPU", "µs", "lower"),
    ),
    run,
    kind="connections",
    limit=limits.accept(),
)
