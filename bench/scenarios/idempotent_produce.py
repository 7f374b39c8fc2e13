"""1 KB records, idempotent, acks=all: the settings of a careful application."""

from bench import limits
from bench.scenario import Scenario, client_cpu, cpu_per_gb, megabytes
from bench.turn import Measures, Turn

CLIENT = "enable.idempotence=true,acks=all,linger.ms=5,batch.size=1000000,queue.buffering.max.messages=200000"
RAW = {"connections": 1, "in_flight": 5, "records": 900, "value_bytes": 1024}


def run(turn: Turn) -> Measures:
    topic = turn.topic("idempotent", partitions=4)
    turn.touch_memory(turn.size.produced_bytes)
    load = turn.load(
        "rd-produce",
        topic=topic,
        value_bytes=1024,
        set=CLIENT,
        run_length=500,
        max_bytes=turn.size.produced_bytes,
        **turn.timed(),
    )
    return load.throughput()


SCENARIO = Scenario(
    "idempotent_1kb",
    "1 KB idempotent acks=all produce (librdkafka)",
    (megabytes(1.0), cpu_per_gb(0.8), client_cpu("s/GB")),
    run,
    kind="batches",
    limit=limits.produce("mb_per_s", "bytes", RAW),
)
