"""Records are numbered without holes, sealed, of the wanted size, and keys follow their law."""

import numpy as np

from loadtest.players.values import Keys, Values, bodies
from loadtest.record import MEANT_TO_ABORT, TRANSACTIONAL, header_of, intact, key_number

PARTITIONS = 6


def values(transactional: bool = False) -> Values:
    return Values(77, 5, Keys(1000, 0.99, 1), PARTITIONS, bodies(100, 300, 1), transactional)


def test_numbers_are_dense_per_producer_and_per_partition() -> None:
    made = values()
    blocks = [made.make(np.full(count, 123)) for count in (1, 500, 7, 0, 92)]
    headers = [header_of(value) for block in blocks for value in block.values]
    assert [int(header["seq"]) for header in headers] == list(range(600))
    assert {(int(header["run"]), int(header["producer"])) for header in headers} == {(77, 5)}
    partitions = [partition for block in blocks for partition in block.partitions.tolist()]
    for partition in range(PARTITIONS):
        own = [int(h["partition_seq"]) for h, p in zip(headers, partitions, strict=True) if p == partition]
        assert own == list(range(len(own)))


def test_a_key_always_goes_to_one_partition() -> None:
    block = values().make(np.zeros(500, np.int64))
    assert [key_number(text) for text in block.key_texts] == block.keys.tolist()
    assert (block.keys % PARTITIONS).tolist() == block.partitions.tolist()


def test_values_are_sealed_and_of_the_requested_sizes() -> None:
    sealed = values().make(np.zeros(500, np.int64)).values
    assert all(intact(value) for value in sealed)
    assert (min(map(len, sealed)), max(map(len, sealed))) == (100, 300)


def test_flags_say_what_is_meant() -> None:
    flags = int(header_of(values(True).make(np.zeros(1, np.int64), MEANT_TO_ABORT).values[0])["flags"])
    assert flags == TRANSACTIONAL | MEANT_TO_ABORT


def test_skew_follows_zipf() -> None:
    drawn = np.bincount(Keys(100, 1.0, 3).draw(200_000), minlength=100)
    assert drawn[0] / drawn[9] > 8
    even = np.bincount(Keys(100, 0.0, 3).draw(200_000), minlength=100)
    assert even.max() / even.min() < 1.3
