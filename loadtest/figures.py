"""The figures of a run, from the pages of all players: for progress lines and the last table."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from loadtest.histogram import Counts, empty, percentile_ns
from loadtest.page import Page, Slot, Times

BUSY = 70.0  # percent of a core: above it, the client affects the measurement
SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}


@dataclass(slots=True)
class Figures:
    """Sums over players since the run began. Times are histograms by `role mode` and kind."""

    sent: int = 0
    acked: int = 0
    failed: int = 0
    seen: int = 0
    acked_bytes: int = 0
    seen_bytes: int = 0
    committed: int = 0
    aborted: int = 0
    waiting: int = 0
    cpu_ns: int = 0
    players: int = 0
    times: dict[Times, Counts] = field(default_factory=lambda: {which: empty() for which in Times})
    cpu_by_player: dict[str, int] = field(default_factory=dict)


class Pages:
    """All pages of a run, kept open. Owner: the conductor."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "pages"
        self._pages: dict[str, Page] = {}

    def read(self) -> Figures:
        for path in self._folder.glob("*.page"):
            if path.stem not in self._pages and not path.stem.startswith("drain"):
                self._pages[path.stem] = Page(path)
        sums = Figures()
        for name, page in self._pages.items():
            sums.sent += page[Slot.SENT]
            sums.acked += page[Slot.ACKED]
            sums.failed += page[Slot.FAILED]
            sums.seen += page[Slot.SEEN]
            sums.acked_bytes += page[Slot.ACKED_BYTES]
            sums.seen_bytes += page[Slot.SEEN_BYTES]
            sums.committed += page[Slot.COMMITTED]
            sums.aborted += page[Slot.ABORTED]
            sums.waiting += page[Slot.WAITING] if not page[Slot.DONE] else 0
            sums.cpu_ns += page[Slot.CPU_NS]
            sums.players += not page[Slot.DONE]
            sums.cpu_by_player[name] = page[Slot.CPU_NS]
            for which in Times:
                sums.times[which] += page.times(which)
        return sums


def interval(now: Figures, before: Figures, seconds: float) -> dict[str, Any]:
    """Rates and latencies between two readings; CPU in percent of one core."""
    grown = {name: used - before.cpu_by_player.get(name, 0) for name, used in now.cpu_by_player.items()}
    busiest = max(grown, key=lambda name: grown[name], default="")
    row: dict[str, Any] = {
        "acked_per_s": round((now.acked - before.acked) / seconds, 1),
        "seen_per_s": round((now.seen - before.seen) / seconds, 1),
        "acked_mb_per_s": round((now.acked_bytes - before.acked_bytes) / seconds / 1e6, 2),
        "not_acked": now.failed - before.failed,
        "committed": now.committed - before.committed,
        "aborted": now.aborted - before.aborted,
        "waiting": now.waiting,
        "clients": now.players,
        "clients_cpu_percent": round((now.cpu_ns - before.cpu_ns) / seconds / 1e7, 1),
        "busiest_client": busiest,
        "busiest_client_cpu_percent": round(grown.get(busiest, 0) / seconds / 1e7, 1),
    }
    for which in Times:
        counts = now.times[which] - before.times[which]
        for name, share in SHARES.items():
            value = percentile_ns(counts, share)
            row[f"{which.name.lower()}_{name}_ms"] = None if value != value else round(value / 1e6, 3)
    return row
