"""Changes, hosts and turns that need no broker."""

from collections.abc import Callable, Mapping
from pathlib import Path

from tuning.finding import Means, Remedy
from tuning.host.roots import Roots
from tuning.verify.change import Change
from tuning.verify.figures import ACK_P99, PRODUCE, Figures

QUEUE = "block/nvme0n1/queue/read_ahead_kb"
SYSCTL = "net.core.rmem_max"


def broker_change(key: str = "num.io.threads", value: str = "2") -> Change:
    return Change(Remedy(Means.PROPERTY, key, value), "one more")


def host_change(target: str = QUEUE, new: str = "1024", old: str = "128") -> Change:
    return Change(Remedy(Means.SYSFS, target, new, old), "larger reads")


def sysctl_change(new: str = "1048576", old: str = "4194304") -> Change:
    return Change(Remedy(Means.SYSCTL, SYSCTL, new, old), "larger buffers")


class Bench:
    """Turns without a broker: a clock that each turn moves, figures by what is set at that moment.

    speed: bulk produce and ack p99 by settings and the queue's value.
    """

    def __init__(
        self,
        roots: Roots,
        speed: Callable[[Mapping[str, str], str], tuple[float, float]],
        turn_s: float = 1.0,
    ) -> None:
        self.now = 0.0
        self.seen: list[tuple[dict[str, str], str]] = []
        self._queue = roots.sys / QUEUE
        self._speed = speed
        self._turn_s = turn_s

    def clock(self) -> float:
        return self.now

    def turn(self, settings: Mapping[str, str], seconds: float) -> Figures:
        queue = self._queue.read_text().strip()
        self.seen.append((dict(settings), queue))
        self.now += self._turn_s
        noise = 1 + 0.01 * (len(self.seen) * 7 % 5 - 2)
        produce, ack = self._speed(settings, queue)
        return {PRODUCE.key: produce * noise, ACK_P99.key: ack / noise}


def value_of(roots: Roots, target: str = QUEUE) -> str:
    return Path(roots.sys / target).read_text().strip()
