"""The tables by which kernels find topics."""

from collections.abc import Mapping

import numpy as np
import pytest

from kbroker.ipc.messages import PartitionImage, TopicImage
from kbroker.net.network_tables import NetworkTables
from kbroker.net.rows import Context, Topic
from kbroker.net.topics import Topics
from kbroker.protocol import slices
from kbroker.protocol.slices import Work
from tests.net.colliding_names import colliding_names
from tests.net.tables import new_tables


def test_chosen_names_have_places_of_their_own() -> None:
    """Clients may choose them; each search would read all of a long run."""
    tables: NetworkTables = new_tables()
    topics = Topics(tables)
    images = [
        TopicImage(name, number.to_bytes(16, "big"), False, ())
        for number, name in enumerate(colliding_names(1000), 1)
    ]
    topics.apply(images, (), True, 1)
    free = np.flatnonzero(topics._name_index == 0)
    assert np.diff(free).max() < 200


def part(slot: int, generation: int = 0, index: int = 0) -> PartitionImage:
    return PartitionImage(index, slot, generation, f"/d/t-{index}")


def topic(name: str, number: int, *slots: int) -> TopicImage:
    """A topic of that number as its id, with partitions in these slots."""
    parts = tuple(part(slot, index=index) for index, slot in enumerate(slots))
    return TopicImage(name, number.to_bytes(16, "big"), False, parts)


def known(topics: Topics) -> tuple[list[str], list[int], list[int]]:
    """Names, numbers of ids, and slots."""
    numbers = sorted(int.from_bytes(topic_id, "big") for topic_id in topics.by_id)
    return sorted(topics.by_name), numbers, sorted(topics.by_slot)


def entries(topics: Topics, name: str) -> tuple[int, int]:
    """Entries of a topic in the indexes by name and by id."""
    word = topics.row_of(name) + 1
    return int((topics._name_index == word).sum()), int((topics._id_index == word).sum())


def test_a_full_image_replaces_all_topics_and_reports_slots_without_one() -> None:
    topics = Topics(new_tables())
    assert (topics.version, topics.slots_in_use()) == (-1, 0)
    assert topics.apply([topic("a", 1, 1, 2), topic("b", 2, 3)], (), True, 7) == []
    assert (topics.version, topics.slots_in_use()) == (7, 4)
    assert sorted(topics.apply([topic("a", 1, 1, 9)], (), True, 8)) == [2, 3]
    assert known(topics) == (["a"], [1], [1, 9])
    assert (topics.version, topics.slots_in_use()) == (8, 10)
    assert topics.by_slot[9] == (topics.by_name["a"], part(9, index=1))


def test_a_changed_image_leaves_other_topics() -> None:
    topics = Topics(new_tables())
    topics.apply([topic("a", 1, 1, 2), topic("b", 2, 3), topic("c", 3, 4)], (), True, 1)
    assert topics.apply([topic("b", 2, 3, 5), topic("d", 4, 6)], ["a", "unknown"], False, 2) == [1, 2]
    assert known(topics) == (["b", "c", "d"], [2, 3, 4], [3, 4, 5, 6])
    assert [entries(topics, name) for name in "bcd"] == [(1, 1)] * 3
    assert "a" not in topics.rows


def test_a_slot_of_another_generation_is_another_log() -> None:
    topics = Topics(new_tables())
    topics.apply([TopicImage("a", b"a" * 16, False, (part(1, 5), part(2, 5, 1)))], (), True, 1)
    moved = TopicImage("a", b"a" * 16, False, (part(1, 5), part(2, 6, 1)))
    assert topics.apply([moved], (), False, 2) == [2]
    assert topics.by_slot[2] == (moved, part(2, 6, 1))
    assert topics.by_slot[1] == (moved, part(1, 5))


def test_a_topic_that_is_created_again_has_only_its_new_id() -> None:
    topics = Topics(new_tables())
    topics.apply([topic("a", 1, 1)], (), True, 1)
    assert topics.apply([topic("a", 2, 8)], ["a"], False, 2) == [1]
    assert known(topics) == (["a"], [2], [8])
    assert entries(topics, "a") == (1, 1)


def test_rows_stay_while_topics_are_added_and_change_when_one_goes() -> None:
    tables = new_tables()
    topics = Topics(tables)
    topics.apply([topic("a", 1, 1)], (), True, 1)
    version, row = int(tables.words[Context.TOPICS_VERSION]), topics.row_of("a")
    topics.apply([topic("b", 2, 2)], (), False, 2)
    assert (int(tables.words[Context.TOPICS_VERSION]), topics.row_of("a")) == (version, row)
    topics.apply((), ["b"], False, 3)
    assert int(tables.words[Context.TOPICS_VERSION]) > version


def test_tables_grow_with_their_topics_and_partitions() -> None:
    topics = Topics(new_tables())
    replaced: list[int] = []
    named: dict[int, str] = {}

    def on_rows(former: Mapping[str, int]) -> None:
        """Those that had a row are known, the others are not: they have no call of their own."""
        assert {row: name for name, row in former.items()} == named
        replaced.append(len(former))
        named.clear()
        named.update((row, name) for name, row in topics.rows.items())

    topics.on_rows = on_rows
    topics.on_row = named.__setitem__
    for number in range(1, 65):
        topics.apply([topic(f"t{number}", number, number)], (), False, number)
    assert (topics.capacity, replaced) == (64, [])
    topics.apply([topic("last", 65, 65)], (), False, 65)
    assert (topics.capacity, replaced) == (130, [64])
    assert {topics.name_at(row): row for row in topics.rows.values()} == topics.rows
    assert {name: row for row, name in named.items()} == topics.rows
    assert all(entries(topics, name) == (1, 1) for name in topics.rows)
    topics.apply([topic("large", 66, *range(100, 300))], (), False, 66)
    assert replaced == [64, 65]
    assert len(topics._partitions) >= 265
    row = topics._table[topics.row_of("large")]
    first, count = int(row[Topic.PARTITIONS]), int(row[Topic.COUNT])
    assert topics._partitions[first : first + count, 0].tolist() == list(range(100, 300))


def test_new_topics_of_an_image_come_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is whole when requests are served between two of them: its permissions for many
    principals take a millisecond."""
    monkeypatch.setattr(slices, "SLICE_NS", 0)
    topics = Topics(new_tables())
    known: set[str] = set()
    topics.on_row = lambda _, name: known.add(name)
    topics.on_rows = lambda _: known.update(topics.rows)
    images = [topic(f"t{number}", number, number) for number in range(1, 100)]
    work = Work(lambda: topics.apply(images, (), False, 1))
    while not work.done:
        work.run_slice()
        assert known == topics.rows.keys() == topics.by_name.keys()
        assert all(entries(topics, name) == (1, 1) for name in known)
    assert work.slices > len(images) // slices.CHECK_EVERY
    assert len(known) == len(images)
