"""Makes keys and values: skewed keys, bodies of the wanted sizes, headers with identity, sealed
with a checksum."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from loadtest.record import (
    CHECKED_FROM,
    HEADER,
    HEADER_BYTES,
    MAGIC,
    TRANSACTIONAL,
    VERSION,
    Header,
    header_sum,
    key_bytes,
    sealed,
)

POOL = 64
HEADERS_EVERY = 8
TAIL_BYTES = HEADER_BYTES - CHECKED_FROM

Numbers = npt.NDArray[np.int64]


class Keys:
    """Key numbers with Zipf's law: key k has weight 1 / (k + 1) ** skew."""

    def __init__(self, keys: int, skew: float, seed: int) -> None:
        weights = 1.0 / np.arange(1, keys + 1) ** skew
        self._edges = np.cumsum(weights / weights.sum())
        self._random = np.random.default_rng(seed)
        self._last = keys - 1

    def draw(self, count: int) -> Numbers:
        drawn = np.searchsorted(self._edges, self._random.random(count), side="right")
        return np.minimum(drawn, self._last).astype(np.int64)


def bodies(low: int, high: int, seed: int) -> list[bytes]:
    """POOL bodies, lengths spread evenly over low..high (of the whole value); half of each
    compresses well."""
    random = np.random.default_rng(seed)
    made = []
    for number in range(POOL):
        length = low + (high - low) * number // (POOL - 1) - HEADER_BYTES
        noise = random.bytes(length // 2)
        made.append(noise + (b"the quick brown fox " * (length // 20 + 1))[: length - len(noise)])
    return [made[place] for place in random.permutation(POOL)]


def headers_of(seq: int) -> list[Header]:
    """One record in so many has headers: a name twice, a null and an empty value, in an order of
    its own."""
    if seq % HEADERS_EVERY:
        return []
    listed: list[Header] = [("seq", b"%d" % seq), ("null", None), ("seq", b""), ("n", b"\0\1")]
    turn = seq // HEADERS_EVERY % len(listed)
    return listed[turn:] + listed[:turn]


@dataclass(slots=True)
class Block:
    """Records to be sent, in order of seq."""

    seqs: Numbers
    partition_seqs: Numbers
    keys: Numbers
    partitions: Numbers
    intended_ns: Numbers
    key_texts: list[bytes]
    values: list[bytes]
    headers: list[list[Header]]  # empty: none
    header_sums: Numbers

    def __len__(self) -> int:
        return len(self.values)


class Values:
    """Numbers and seals the records of one producer life. Owner: one producer player."""

    def __init__(
        self, run: int, producer: int, keys: Keys, partitions: int, pool: list[bytes], transactional: bool
    ) -> None:
        self._keys = keys
        self._partitions = partitions
        self._pool = pool
        self._run = run
        self._producer = producer
        self._flags = TRANSACTIONAL if transactional else 0
        self._texts: dict[int, bytes] = {}
        self.next_seq = 0
        self._next_partition_seqs = np.zeros(partitions, np.int64)

    def make(self, intended_ns: Numbers, more_flags: int = 0, keys: Numbers | None = None) -> Block:
        """A record for each intended time; they count as attempted from now on."""
        count = len(intended_ns)
        keys = self._keys.draw(count) if keys is None else keys
        partitions = keys % self._partitions
        headers = np.zeros(count, HEADER)
        headers["magic"] = MAGIC
        headers["version"] = VERSION
        headers["flags"] = self._flags | more_flags
        headers["run"] = self._run
        headers["producer"] = self._producer
        headers["seq"] = seqs = np.arange(self.next_seq, self.next_seq + count)
        headers["partition_seq"] = partition_seqs = self._count(partitions)
        headers["intended_ns"] = intended_ns
        self.next_seq += count
        tails = headers.view(np.uint8).reshape(count, HEADER_BYTES)[:, CHECKED_FROM:].tobytes()
        pool, first = self._pool, int(seqs[0]) if count else 0
        values = [
            sealed(tails[at * TAIL_BYTES : (at + 1) * TAIL_BYTES] + pool[(first + at) % POOL])
            for at in range(count)
        ]
        texts = [self._texts.get(key) or self._text(key) for key in keys.tolist()]
        listed = [headers_of(seq) for seq in seqs.tolist()]
        sums = np.array([header_sum(each) for each in listed], np.int64)
        return Block(seqs, partition_seqs, keys, partitions, intended_ns, texts, values, listed, sums)

    def _text(self, key: int) -> bytes:
        return self._texts.setdefault(key, key_bytes(key))

    def _count(self, partitions: Numbers) -> Numbers:
        """Running numbers per partition for records in this order."""
        order = np.argsort(partitions, kind="stable")
        counts = np.bincount(partitions, minlength=self._partitions)
        starts = np.cumsum(counts) - counts
        numbers = np.empty(len(partitions), np.int64)
        inside = np.arange(len(partitions)) - np.repeat(starts, counts)
        numbers[order] = inside + self._next_partition_seqs[partitions[order]]
        self._next_partition_seqs += counts
        return numbers
