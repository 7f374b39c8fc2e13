"""One compressed record per request over raw sockets: the broker's cost of checking its record.

A client that does not linger sends such batches. Both brokers look at each record before they
append it.
"""

import time
from pathlib import Path

from bench import limits
from bench.scenario import Scenario, client_cpu, cpu_per_message, latency, rate
from bench.turn import Measures, Turn
from kbroker.protocol.compression import Codec
from kbroker.protocol.records import build_batch

PARTITIONS = 8
CONNECTIONS = 50
IN_FLIGHT = 5
VALUE = b'{"order":"7f3c91d2","customer":48213,"status":"shipped","lines":[{"sku":"KB-1001","count":2,"price":19.9}]}'
VALUE_BYTES = 300


def compressed(codec: Codec) -> Scenario:
    """A closed loop as that of raw_produce, of batches that the codec has made."""
    name = codec.name.lower()

    def run(turn: Turn) -> Measures:
        value = (VALUE * 3)[:VALUE_BYTES]
        batch = Path(turn.target.folder, f"{name}.batch")
        batch.write_bytes(build_batch([(None, value, (), int(time.time() * 1000))], codec=codec))
        load = turn.load(
            "produce",
            topic=turn.topic(f"produce-{name}", PARTITIONS),
            connections=CONNECTIONS,
            in_flight=IN_FLIGHT,
            batch=batch,
            **turn.timed(),
        )
        return {**load.rate("requests"), **load.latency()}

    return Scenario(
        f"produce_{name}",
        f"one record of {VALUE_BYTES} B per request, {name}, {CONNECTIONS} x {IN_FLIGHT} in flight",
        (
            rate(1, "requests/s"),
            cpu_per_message(0.5, "request"),
            latency("p50"),
            latency("p99"),
            client_cpu(),
        ),
        run,
        kind="compressed",
        limit=limits.echo(),
    )


SCENARIOS = tuple(compressed(codec) for codec in Codec if codec != Codec.NONE)
