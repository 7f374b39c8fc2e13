"""Java's hashes and the order of its HashMap."""

from hypothesis import given
from hypothesis import strategies as st

from kbroker.config.java_hash import concurrent_map_order, map_order, string_hash, timeline_order

KEYS = ["producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"]


def test_hashes_are_unsigned_words() -> None:
    assert string_hash("polygenelubricants") == 1 << 31
    assert string_hash("a") == 97


@given(st.text(st.characters(max_codepoint=127), max_size=300) | st.text())
def test_a_hash_is_that_of_the_formula_in_javas_documentation(text: str) -> None:
    units = text.encode("utf-16-be", "surrogatepass")
    pairs = [units[at] << 8 | units[at + 1] for at in range(0, len(units), 2)]
    formula = sum(unit * 31 ** (len(pairs) - 1 - at) for at, unit in enumerate(pairs))
    assert string_hash(text) == formula % (1 << 32)


def test_keys_come_by_bucket_then_as_they_came() -> None:
    assert map_order(["b", "A", "a"], string_hash) == ["A", "a", "b"]
    assert map_order([33, 1, 17, 2], lambda key: key) == [33, 1, 17, 2]
    assert map_order([33, 1, 18, 2], lambda key: key, 1) == [33, 1, 18, 2]


def test_a_map_grows_when_it_is_three_quarters_full() -> None:
    assert map_order([4, 3, 1], lambda key: key, 1) == [4, 1, 3]
    assert map_order([4, 3, 2, 1], lambda key: key, 1) == [1, 2, 3, 4]


def test_quotas_are_listed_in_kafkas_order() -> None:
    """As a client's own suite wants them from Apache Kafka."""
    three = map_order(map_order(KEYS[:3], string_hash), string_hash, 1)
    assert three == ["consumer_byte_rate", "request_percentage", "producer_byte_rate"]


def test_a_concurrent_map_grows_one_key_sooner() -> None:
    keys = [16, *range(1, 12)]
    assert map_order(keys, lambda key: key)[0] == 16
    assert concurrent_map_order(keys, lambda key: key)[-1] == 16


def test_a_timeline_map_goes_by_the_high_bits_and_the_last_of_a_slot_first() -> None:
    """Apache Kafka lists grp-4 before grp-1, and its own ListGroupsRequestTest relies on it."""
    assert timeline_order([f"grp-{number}" for number in range(1, 7)], string_hash) == [
        "grp-2", "grp-4", "grp-1", "grp-6", "grp-3", "grp-5",
    ]  # fmt: skip
    assert timeline_order([5, 5 + (1 << 32)], lambda key: key) == [5 + (1 << 32), 5]
