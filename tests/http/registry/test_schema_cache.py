"""The cache of values of schemas is bounded by the characters of the schemas."""

from kbroker.http.registry.schema_cache import OVERHEAD, SchemaCache


def test_the_value_that_was_not_used_for_the_longest_time_is_forgotten() -> None:
    cache: SchemaCache[str, int] = SchemaCache(3 * OVERHEAD + 10)
    for number, name in enumerate("abc"):
        cache.put(name, number, 3)
    assert cache.get("a") == 0
    cache.put("d", 3, 3)
    assert [cache.get(name) for name in "abcd"] == [0, None, 2, 3]


def test_a_value_of_too_many_characters_is_not_kept_and_leaves_room() -> None:
    cache: SchemaCache[str, int] = SchemaCache(OVERHEAD + 10)
    cache.put("a", 1, 11)
    assert (cache.get("a"), len(cache)) == (None, 0)
    cache.put("a", 2, 10)
    assert cache.get("a") == 2


def test_a_value_that_is_replaced_counts_once() -> None:
    cache: SchemaCache[str, int] = SchemaCache(2 * OVERHEAD + 10)
    for number in range(5):
        cache.put("a", number, 4)
    cache.put("b", 9, 6)
    assert (cache.get("a"), cache.get("b")) == (4, 9)
