"""The figures of a turn, and which way each of them is better."""

from dataclasses import dataclass

ACKS_PER_SECOND = 500
DIGITS = ((100.0, ",.0f"), (10.0, ".1f"), (1.0, ".2f"))


@dataclass(frozen=True, slots=True)
class Figure:
    """One measure of a turn. key: in the report's JSON. more_is_better: else less is."""

    key: str
    title: str
    unit: str
    more_is_better: bool

    def show(self, value: float) -> str:
        """The value with its unit, three digits or so."""
        digits = next((form for least, form in DIGITS if abs(value) >= least), ".3g")
        return f"{value:{digits}} {self.unit}"


ACK_P50 = Figure("ack_p50_ms", f"ack at {ACKS_PER_SECOND}/s, p50", "ms", more_is_better=False)
ACK_P99 = Figure("ack_p99_ms", f"ack at {ACKS_PER_SECOND}/s, p99", "ms", more_is_better=False)
BUSY_P99 = Figure("busy_ack_p99_ms", "ack beside bulk produce, p99", "ms", more_is_better=False)
PRODUCE = Figure("produce_mb_per_s", "bulk produce", "MB/s", more_is_better=True)
CACHED = Figure("cached_fetch_mb_per_s", "fetch from the page cache", "MB/s", more_is_better=True)
COLD = Figure("cold_fetch_mb_per_s", "fetch from the disk", "MB/s", more_is_better=True)
CPU = Figure("cpu_s_per_gb", "broker's CPU for a GB in and out", "s", more_is_better=False)
FIGURES = (ACK_P50, ACK_P99, BUSY_P99, PRODUCE, CACHED, COLD, CPU)

Figures = dict[str, float]
"""One turn's values by key; what could not be measured is left out."""
