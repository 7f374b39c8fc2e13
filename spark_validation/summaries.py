"""Throughput, latency percentiles and lag over time, as small tables that the report draws."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_validation.evidence import Evidence

POINTS = 300  # at most, on the time axis
STEPS_PER_OCTAVE = 16  # of the latency histograms: 4 % wide
NS = 1_000_000_000


@dataclass
class Series:
    """A plot: seconds since the start, and a line of values per name; nan where there is
    nothing."""

    title: str
    unit: str
    seconds: NDArray[np.float64]
    lines: dict[str, NDArray[np.float64]] = field(default_factory=dict)


@dataclass
class Summary:
    plots: list[Series] = field(default_factory=list)
    partitions: list[dict[str, Any]] = field(default_factory=list)
    start_ns: int = 0
    end_ns: int = 0
    width_s: float = 1.0


def octave(value: Column) -> Column:
    return F.floor(F.log2(F.greatest(value, F.lit(1)).cast("double")) * STEPS_PER_OCTAVE).cast("int")


def summarise(evidence: Evidence) -> Summary:
    """One pass over sends and one over reads."""
    span = evidence.sends.where("status = 0").agg(F.min("sent_ns"), F.max("acked_ns")).first()
    if span is None or span[0] is None:
        return Summary()
    start, end = int(span[0]), int(span[1])
    width = max(1, -(-(end - start) // (POINTS * NS))) * NS
    count = int((end - start) // width) + 1
    summary = Summary(start_ns=start, end_ns=end, width_s=width / NS)
    seconds = np.arange(count, dtype=np.float64) * (width / NS)

    def binned(frame: DataFrame, time: str, since: str) -> list[Any]:
        slot = F.floor((F.col(time) - start) / width).cast("int").alias("slot")
        picked = frame.select(slot, octave(F.col(time) - F.col(since)).alias("octave"))
        return picked.groupBy("slot", "octave").count().collect()

    loads = evidence.consumers.where("role != 'drain'").select("consumer")
    sent = binned(evidence.sends.where("status = 0"), "acked_ns", "intended_ns")
    seen = binned(evidence.reads.join(loads, "consumer").where("intended_ns > 0"), "seen_ns", "intended_ns")
    acked_rate, read_rate = rate(sent, count, width), rate(seen, count, width)
    summary.plots = [
        Series("Throughput", "records/s", seconds, {"acknowledged": acked_rate, "delivered": read_rate}),
        Series("Acknowledged after it was intended", "ms", seconds, percentiles(sent, count)),
        Series("Delivered after it was intended", "ms", seconds, percentiles(seen, count)),
    ]
    if lag_lines := lags(evidence, start, width, count):
        summary.plots.append(Series("Lag of groups", "records", seconds, lag_lines))
    return summary


def rate(rows: list[Any], count: int, width: int) -> NDArray[np.float64]:
    """Records a second."""
    found = np.zeros(count)
    for row in rows:
        if 0 <= row["slot"] < count:
            found[row["slot"]] += row["count"]
    return found / (width / NS)


def percentiles(rows: list[Any], count: int) -> dict[str, NDArray[np.float64]]:
    """Latency in ms over time, out of histograms."""
    lines = {name: np.full(count, np.nan) for name in ("p50", "p99", "p99.9", "max")}
    slots: dict[int, list[tuple[int, int]]] = {}
    for row in rows:
        slots.setdefault(row["slot"], []).append((row["octave"], row["count"]))
    for slot, found in slots.items():
        if not 0 <= slot < count:
            continue
        found.sort()
        values = 2.0 ** ((np.array([o for o, _ in found]) + 0.5) / STEPS_PER_OCTAVE) / 1e6
        reached = np.cumsum([n for _, n in found])
        for name, share in (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)):
            lines[name][slot] = values[np.searchsorted(reached, share * reached[-1] - 1e-9)]
    return lines


def lags(evidence: Evidence, start: int, width: int, count: int) -> dict[str, NDArray[np.float64]]:
    """Per group: highest acknowledged offset less the highest delivered one, summed over its
    partitions."""
    groups = evidence.consumers.where("role != 'drain' and `group` is not null").select("consumer", "group")
    slot = F.floor((F.col("at") - start) / width).cast("int").alias("slot")
    ends = evidence.acked.withColumnRenamed("acked_ns", "at")
    ends = ends.select("topic", "partition", slot, "offset").groupBy("topic", "partition", "slot")
    heads = ends.agg(F.max("offset").alias("reached")).collect()
    reads = evidence.reads.join(groups, "consumer").withColumnRenamed("seen_ns", "at")
    reads = reads.select("group", "topic", "partition", slot, "offset").groupBy(
        "group", "topic", "partition", "slot"
    )
    tails = reads.agg(F.max("offset").alias("reached")).collect()
    head: dict[tuple[str, int], NDArray[np.float64]] = {}
    for row in heads:
        reach(head, (row["topic"], row["partition"]), row, count)
    lines: dict[str, NDArray[np.float64]] = {}
    tail: dict[tuple[str, str, int], NDArray[np.float64]] = {}
    for row in tails:
        reach(tail, (row["group"], row["topic"], row["partition"]), row, count)
    for (group, topic, partition), line in tail.items():
        behind = np.maximum.accumulate(
            head.get((topic, partition), np.full(count, -1.0))
        ) - np.maximum.accumulate(line)
        lines[group] = lines.get(group, np.zeros(count)) + np.maximum(behind, 0)
    return lines


def reach(lines: dict[Any, NDArray[np.float64]], key: Any, row: Any, count: int) -> None:
    line = lines.setdefault(key, np.full(count, -1.0))
    if 0 <= row["slot"] < count:
        line[row["slot"]] = max(line[row["slot"]], row["reached"])
