"""The words of a row: what two features write in the same place goes wrong in neither's tests."""

from collections import Counter

from kbroker.io.append import append_row
from kbroker.ipc import layout


def test_every_word_of_a_row_is_used_once_and_lies_in_it() -> None:
    words = {name: number for name, number in vars(append_row).items() if name.startswith("ROW_")}
    size = words.pop("ROW_WORDS")
    assert [number for number, times in Counter(words.values()).items() if times > 1] == []
    assert max(words.values()) < size


def test_every_word_of_a_slot_is_used_once_and_lies_in_it() -> None:
    words = {name: number for name, number in vars(layout).items() if name.startswith("SLOT_")}
    size = words.pop("SLOT_WORDS")
    assert [number for number, times in Counter(words.values()).items() if times > 1] == []
    assert max(words.values()) < size
