"""Large batches as fast as they are taken, beside bare loops of the same bytes: the physical limit."""

from bench.scenario import Measure, Measures, Scenario, client_cpu, cpu_per_gb, megabytes
from bench.turn import Turn

RECORDS = 500
PARTITIONS = 4


def run(turn: Turn) -> Measures:
    topic = turn.topic("bulk", PARTITIONS)
    load = turn.load(
        "produce",
        topic=topic,
        connections=8,
        records=RECORDS,
        value_bytes=1024,
        max_bytes=turn.size.produced_bytes,
        warm=turn.size.warm_seconds / 4,
        seconds=turn.size.seconds,
    )
    figures = load.throughput()
    turn.clean_up()
    total = int(load.answer["bytes"])
    batch_bytes = total * RECORDS // max(int(load.answer["records"]), 1)
    for name in ("pwrite", "receive"):
        bare = bare_loop(turn, name, total, batch_bytes)
        figures[f"bare_{name}_mb_per_s"] = bare
        figures[f"of_bare_{name}"] = figures["mb_per_s"] / bare
    return figures


def bare_loop(turn: Turn, name: str, total_bytes: int, chunk: int) -> float:
    """MB/s of as many bytes written to as many files, without a broker."""
    turn.sync()
    options = {"folder": turn.target.folder, "files": PARTITIONS, "bytes": total_bytes, "chunk": chunk}
    bare = turn.generator.run(f"bare-{name}", options)
    return float(bare["bytes"]) / float(bare["seconds"]) / 1e6


SCENARIO = Scenario(
    "bulk_produce",
    "512 KB batches, 8 raw connections",
    (
        megabytes(),
        cpu_per_gb(),
        Measure("of_bare_pwrite", "share of a bare pwrite loop", "", "higher", 0.7, absolute=True),
        Measure("bare_pwrite_mb_per_s", "that loop", "MB/s", "higher"),
        Measure("of_bare_receive", "share of a loop that receives and pwrites", "", "higher"),
        Measure("bare_receive_mb_per_s", "that loop", "MB/s", "higher"),
        client_cpu("s/GB"),
    ),
    run,
)
