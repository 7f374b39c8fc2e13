"""State of the live judgement: digests of buckets, merged micro-batch by micro-batch. Pure; time is
passed in.
"""

from dataclasses import dataclass, field

Bucket = tuple[str, int, int]  # topic, partition, offset >> 12


@dataclass
class Side:
    """Count and xor of record hashes."""

    count: int = 0
    hash: int = 0

    def add(self, count: int, hash_: int) -> None:
        self.count += count
        self.hash ^= hash_


@dataclass
class Live:
    """Digests of one run, by bucket. sent, held: of producers and of the log. Owner: the streaming
    job's driver. grace_s: how long one side may be late."""

    grace_s: float
    sent: dict[Bucket, Side] = field(default_factory=dict)
    held: dict[Bucket, Side] = field(default_factory=dict)
    changed: dict[Bucket, float] = field(default_factory=dict)
    settled: set[Bucket] = field(default_factory=set)
    reads: int = 0
    read_at: float = 0.0  # time of the last micro-batch with a delivered record
    altered: int = 0

    def merge(self, which: str, bucket: Bucket, count: int, hash_: int, now: float) -> None:
        """Adds a micro-batch's digest of a bucket; which: "sent" or "held"."""
        sides = self.sent if which == "sent" else self.held
        sides.setdefault(bucket, Side()).add(count, hash_)
        self.changed[bucket] = now
        self.settled.discard(bucket)

    def due(self, now: float, ended: bool = False) -> list[Bucket]:
        """Buckets quiet for the grace (all of them when the run has ended) and not judged since
        they last changed.

        Those whose sides agree are settled at once; what is left needs the exact checks, whose
        caller settles it. At the end these are due once more: only then it is known what of a log
        was removed by right.
        """
        unequal = []
        for bucket, changed in self.changed.items():
            if not ended and (bucket in self.settled or now - changed < self.grace_s):
                continue
            if self.sent.get(bucket, Side()) == self.held.get(bucket, Side()):
                self.settled.add(bucket)
            else:
                unequal.append(bucket)
        return unequal

    def last_change(self, began: float) -> float:
        """The time of the newest micro-batch with a record; began: that of a job without one."""
        return max((began, self.read_at, *self.changed.values()))

    def settle(self, buckets: list[Bucket]) -> None:
        self.settled.update(buckets)

    def absent(self) -> list[str]:
        """Reasons why a run without a finding is not clean: kinds of which there was nothing to
        compare."""
        found = self.totals()
        named = {"sends": "acknowledged send", "log": "record of the log", "reads": "delivered record"}
        return [f"no {name} was seen" for kind, name in named.items() if not found[kind]]

    def unjudged(self) -> list[str]:
        """The reason why a job that ends before the run has no verdict: buckets that differ, and
        were not quiet for the grace."""
        differ = [
            bucket
            for bucket in self.changed.keys() - self.settled
            if self.sent.get(bucket, Side()) != self.held.get(bucket, Side())
        ]
        return [f"{len(differ)} buckets of offsets differ and were not judged yet"] if differ else []

    def totals(self) -> dict[str, int]:
        """Records so far, by where they come from."""
        return {
            "sends": sum(side.count for side in self.sent.values()),
            "log": sum(side.count for side in self.held.values()),
            "reads": self.reads,
            "buckets settled": len(self.settled),
            "buckets": len(self.changed),
        }
