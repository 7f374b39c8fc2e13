"""The words of a network process's context: several rooms number theirs by hand, no two alike."""

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

from kbroker.net import rows
from kbroker.net.rows import layout
from kbroker.net.rows.answer_layout import TABLE_WORDS

WORDS = {
    "CX_RUNS": 4 * layout.RUN_WORDS,
    "CX_ANSWERS": TABLE_WORDS,
    "CX_TOPIC_PARTS": TABLE_WORDS,
}  # what takes more than one word


def layouts() -> Iterator[ModuleType]:
    for found in iter_modules(rows.__path__):
        if found.name.endswith("layout"):
            yield import_module(f"kbroker.net.rows.{found.name}")


def test_no_two_rooms_use_the_same_word_of_the_context() -> None:
    owners: dict[int, str] = {}
    for module in layouts():
        for name, first in vars(module).items():
            if name.startswith("CX_"):
                for word in range(first, first + WORDS.get(name, 1)):
                    assert owners.setdefault(word, name) == name, f"{owners[word]} and {name} are word {word}"
    assert max(owners) < layout.CONTEXT_WORDS
