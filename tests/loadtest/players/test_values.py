"""Records are numbered without holes, sealed, of the wanted size, and keys follow their law."""

import numpy as np

from loadtest.players.values import Keys, Values, bodies
from loadtest.record import MEANT_TO_ABORT, TRANSACTIONAL, header_of, header_sum, intact, key_number

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


def test_one_record_in_eight_has_headers_in_an_order_of_its_own() -> None:
    block = values().make(np.zeros(40, np.int64))
    assert [at for at, listed in enumerate(block.headers) if listed] == [0, 8, 16, 24, 32]
    assert [[name for name, _ in block.headers[at]] for at in (0, 8, 16, 24, 32)] == [
        ["seq", "null", "seq", "n"],
        ["null", "seq", "n", "seq"],
        ["seq", "n", "seq", "null"],
        ["n", "seq", "null", "seq"],
        ["seq", "null", "seq", "n"],
    ]
    assert dict(block.headers[8])["null"] is None
    assert ("seq", b"8") in block.headers[8]
    assert ("seq", b"") in block.headers[8]
    assert block.header_sums.tolist() == [header_sum(listed) for listed in block.headers]
    assert np.flatnonzero(block.header_sums).tolist() == [0, 8, 16, 24, 32]


def test_given_keys_are_kept_and_counted_by_partition() -> None:
    made = values()
    block = made.make(np.arange(5), keys=np.array([7, 1, 13, 2, 7]))
    assert block.keys.tolist() == [7, 1, 13, 2, 7]
    assert block.partitions.tolist() == [1, 1, 1, 2, 1]
    assert block.partition_seqs.tolist() == [0, 1, 2, 0, 3]
    again = made.make(np.arange(2), keys=np.array([8, 1]))
    assert (again.partition_seqs.tolist(), again.seqs.tolist()) == ([1, 4], [5, 6])
    assert made.next_seq == 7
    assert [int(header_of(value)["intended_ns"]) for value in again.values] == [0, 1]
