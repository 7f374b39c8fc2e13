"""One record per request over the one connection of a librdkafka producer: a client that does not
batch."""

from bench import limits
from bench.scenario import Scenario, client_cpu, cpu_per_message, rate
from bench.turn import Measures, Turn

CLIENT = "acks=all,linger.ms=0,batch.num.messages=1,queue.buffering.max.messages=10000"
RAW = {"connections": 1, "in_flight": 100, "value_bytes": 100}


def run(turn: Turn) -> Measures:
    topic = turn.topic("single", partitions=1)
    return turn.load("rd-produce", topic=topic, value_bytes=100, set=CLIENT, **turn.timed()).rate()


SCENARIO = Scenario(
    "single_record",
    "one record per request, one librdkafka connection",
    (rate(1.5), cpu_per_message(0.5), client_cpu()),
    run,
    kind="produce",
    limit=limits.produce("rate", "records", RAW),
)
