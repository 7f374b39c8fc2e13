"""Java's hashes and the order of its HashMap."""

from kbroker.config.java_hash import map_order, string_hash

KEYS = ["producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"]


def test_hashes_are_unsigned_words() -> None:
    assert string_hash("polygenelubricants") == 1 << 31
    assert string_hash("a") == 97


def test_keys_come_by_bucket_then_as_they_came() -> None:
    assert map_order(["b", "A", "a"], string_hash) == ["A", "a", "b"]
    assert map_order([33, 1, 17, 2], lambda key: key) == [33, 1, 17, 2]
    assert map_order([33, 1, 18, 2], lambda key: key, 1) == [33, 1, 18, 2]


def test_a_map_grows_when_it_is_three_quarters_full() -> None:
    assert map_order([4, 3, 1], lambda key: key, 1) == [4, 1, 3]
    assert map_order([4, 3, 2, 1], lambda key: key, 1) == [1, 2, 3, 4]


def test_quotas_are_told_as_kafka_tells_them() -> None:
    """As a client's own suite wants them from Apache Kafka."""
    three = map_order(map_order(KEYS[:3], string_hash), string_hash, 1)
    assert three == ["consumer_byte_rate", "request_percentage", "producer_byte_rate"]
