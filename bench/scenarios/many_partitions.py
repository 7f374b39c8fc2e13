"""Many partitions on one node, ten thousand in a full run: the cost of creating and holding them,
and their effect on other produce.

The same load on the same eight partitions runs before and after they are created: the difference is
the cost that grows with their number.
"""

import time

from bench.measure import all_stats, mappings, open_files, pss_bytes, tree_of
from bench.scenario import Measure, Scenario
from bench.turn import Measures, Turn

TOPICS = 10


def run(turn: Turn) -> Measures:
    with turn.fresh_broker() as broker:
        broker.launch()
        broker.wait_ready()
        beside = turn.beside(broker)
        few = beside.topic("few", 8)
        load = {"topic": few, "connections": 8, "records": 1, "value_bytes": 100, **turn.timed()}
        alone = beside.load("produce", **load).rate()
        before = pss_bytes(broker.pid)
        begun = time.monotonic()
        names = [
            beside.topic(f"many-{number}", turn.size.many_partitions // TOPICS) for number in range(TOPICS)
        ]
        created = time.monotonic() - begun
        each = turn.size.many_partitions // TOPICS
        usable = max(broker.wait_ready(name, each) for name in names) - (begun - broker.launched_at)
        for name in names:  # every log holds something
            width = each // 10
            beside.load(
                "produce", topic=name, connections=10, partitions_per_request=width, warm=0, seconds=0.3
            )
        among = beside.load("produce", **load).rate()
        pids = [stat.pid for stat in tree_of(broker.pid, all_stats())]
        return {
            "create_s": created,
            "usable_s": usable,
            "kb_each": (pss_bytes(broker.pid) - before) / 1024 / (turn.size.many_partitions),
            "fds": max(map(open_files, pids)),
            "maps": max(map(mappings, pids)),
            "cpu_us": among["cpu_us"],
            "dearer": among["cpu_us"] / alone["cpu_us"],
        }


SCENARIO = Scenario(
    "many_partitions",
    "{many:,} partitions on one node",
    (
        Measure("create_s", "time until CreateTopics has answered", "s", "lower"),
        Measure("usable_s", "time until every one answers", "s", "lower"),
        Measure("kb_each", "memory for each (PSS)", "KiB", "lower"),
        Measure("fds", "open files of the process that has most", "", "lower"),
        Measure("maps", "mappings of the process that has most", "", "lower"),
        Measure("cpu_us", "broker CPU per message of 8 partitions among them", "µs", "lower"),
        Measure("dearer", "that CPU / without the others", "times", "lower", 1.1, absolute=True),
    ),
    run,
    new_broker=True,
)
