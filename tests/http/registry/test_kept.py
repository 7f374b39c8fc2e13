"""What is made of schemas is kept up to a number of characters."""

from kbroker.http.registry.kept import Kept


def test_the_value_that_was_not_used_for_the_longest_time_is_forgotten() -> None:
    kept: Kept[str, int] = Kept(10)
    for number, name in enumerate("abc"):
        kept.put(name, number, 3)
    assert kept.get("a") == 0
    kept.put("d", 3, 3)
    assert [kept.get(name) for name in "abcd"] == [0, None, 2, 3]


def test_a_value_of_too_many_characters_is_not_kept_and_leaves_room() -> None:
    kept: Kept[str, int] = Kept(10)
    kept.put("a", 1, 11)
    assert (kept.get("a"), len(kept)) == (None, 0)
    kept.put("a", 2, 10)
    assert kept.get("a") == 2


def test_a_value_that_is_replaced_counts_once() -> None:
    kept: Kept[str, int] = Kept(10)
    for number in range(5):
        kept.put("a", number, 4)
    kept.put("b", 9, 6)
    assert (kept.get("a"), kept.get("b")) == (4, 9)
