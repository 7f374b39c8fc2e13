"""One 100 B record per request over raw sockets, from many clients: the broker's bare cost per
request."""

from bench import limits
from bench.scenario import Scenario, client_cpu, cpu_per_message, latency, rate
from bench.turn import Measures, Turn

PARTITIONS = 8


def raw(connections: int, in_flight: int, rate_goal: float, of_echo: float | None = None) -> Scenario:
    """A closed loop: each connection keeps `in_flight` requests unanswered."""

    def run(turn: Turn) -> Measures:
        topic = turn.topic(f"raw-{connections}x{in_flight}", PARTITIONS)
        load = turn.load(
            "produce",
            topic=topic,
            connections=connections,
            in_flight=in_flight,
            value_bytes=100,
            **turn.timed(),
        )
        return {**load.rate("requests"), **load.latency()}

    return Scenario(
        f"raw_{connections}x{in_flight}",
        f"one record per request, raw sockets, {connections} x {in_flight} in flight",
        (
            rate(rate_goal, "requests/s"),
            cpu_per_message(0.45, "request"),
            latency("p50"),
            latency("p99", 0.5),
            client_cpu(),
        ),
        run,
        kind="produce",
        limit=limits.echo(goal=of_echo),
    )


SCENARIOS = (raw(50, 1, 1.8, 0.6), raw(50, 5, 2.0), raw(1000, 1, 1.3))
