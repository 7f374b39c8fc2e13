"""Work in slices gives the same results as work in one piece, gives way in time, and frees what it
alone held."""

import importlib.util
import sys
import time
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from operator import itemgetter
from typing import Any

import pytest

from kbroker.protocol import slices as module
from kbroker.protocol.codec import decode, encode
from kbroker.protocol.compile_encode import write_uvarint
from kbroker.protocol.long_frame import TooLarge
from kbroker.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kbroker.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from kbroker.protocol.schema import ProtocolError
from kbroker.protocol.slices import (
    SLICE_NS,
    Repeated,
    SlicedList,
    Table,
    Work,
    at_once,
    distinct,
    emptied,
    in_order,
    is_sliced,
    paced,
    release,
    yield_slice,
)
from tests.callbacks import Tries

COUNT = 20_000


def finish(function: Callable[[], Any]) -> tuple[Any, int]:
    """(result, slices)"""
    work, slices = Work(function), 1
    found = work.run_slice()
    while not work.done:
        found = work.run_slice()
        slices += 1
    return found, slices


def request() -> MetadataRequest:
    return MetadataRequest([MetadataRequestTopic(name=f"topic-{number}") for number in range(COUNT)], False)


def test_a_long_request_is_read_in_slices_as_in_one_piece() -> None:
    body = encode(request(), 9)
    found, slices = finish(lambda: decode(MetadataRequest, 9, body)[0])
    assert found == request()
    assert slices > 1
    assert isinstance(found.topics, SlicedList)


def test_numbers_are_read_in_slices_as_in_one_piece() -> None:
    expected = OffsetFetchRequest("g", [OffsetFetchRequestTopic("t", list(range(200_000)))])
    body = encode(expected, 7)
    found, _ = finish(lambda: decode(OffsetFetchRequest, 7, body)[0])
    assert found == expected


def test_a_cut_request_is_refused_in_slices_too() -> None:
    body = encode(request(), 9)[:-3]
    with pytest.raises(ProtocolError):
        finish(lambda: decode(MetadataRequest, 9, body))


def test_millions_of_tagged_fields_are_skipped_in_slices() -> None:
    tags = bytearray()
    write_uvarint(tags, 1_000_000)
    body = encode(MetadataRequest([], False), 9)[:-1] + tags + bytes((9, 0)) * 1_000_000
    found, slices = finish(lambda: decode(MetadataRequest, 9, body)[0])
    assert found == MetadataRequest([], False)
    assert slices > 5


def test_a_long_answer_is_written_in_slices_as_in_one_piece() -> None:
    answer = MetadataResponse(topics=[MetadataResponseTopic(3, f"t{number}") for number in range(COUNT)])
    found, slices = finish(lambda: encode(answer, 9))
    assert found == encode(answer, 9)
    assert slices > 1


def test_an_answer_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kbroker.protocol.long_frame.MAX_SLICED_BYTES", 1000)
    answer = MetadataResponse(topics=[MetadataResponseTopic(3, f"t{number}") for number in range(COUNT)])
    with pytest.raises(TooLarge):
        finish(lambda: encode(answer, 9))


def test_who_iterates_over_a_long_list_of_a_request_gives_way() -> None:
    items = SlicedList(f"{number % 7}" for number in range(500_000))
    counted, slices = finish(lambda: Counter(items))
    assert counted == Counter(list.__iter__(items))
    assert slices > 1


def test_a_slice_ends_in_time() -> None:
    def work() -> None:
        for _ in paced(range(2_000_000)):
            pass

    tries = Tries(20 * SLICE_NS / 1e6)
    while tries.needed():
        longest, running = 0, Work(work)
        while not running.done:
            began = time.thread_time_ns()
            running.run_slice()
            longest = max(longest, time.thread_time_ns() - began)
        tries.add(longest / 1e6)
    tries.check()


def test_outside_of_slices_nothing_gives_way() -> None:
    assert not is_sliced()
    yield_slice()
    items = [1, 2]
    assert paced(items) is items


def test_lists_that_others_hold_are_not_emptied() -> None:
    parts = [MetadataResponsePartition(0, number) for number in range(1000)]
    topic = MetadataResponseTopic(0, "shared", partitions=parts)
    del parts
    answer = MetadataResponse(topics=[MetadataResponseTopic(0, f"t{number}") for number in range(1000)])
    answer.topics.append(topic)
    own = answer.topics[3]
    own.partitions = [MetadataResponsePartition(0, 1)]
    held = answer.brokers
    held.append(MetadataResponseBroker(1, "h", 1))
    release(answer)
    assert (answer.topics, len(held), len(topic.partitions), len(own.partitions)) == ([], 1, 1000, 1)


def test_lists_that_others_hold_are_not_emptied_where_an_argument_is_not_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Python 3.14 gives a lower count of references: every list passed for one that nobody else
    held."""
    count = sys.getrefcount

    def lower(thing: object) -> int:
        return count(thing) - beside

    beside, held = 0, [[None]]
    part = held[0]
    beside = lower(part) - 2
    monkeypatch.setattr(sys, "getrefcount", lower)
    spec = importlib.util.spec_from_file_location("slices_of_python_3_14", module.__file__)
    assert spec is not None
    assert spec.loader is not None
    there = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(there)
    topics = [MetadataResponseTopic(0, f"t{number}") for number in range(3)]
    topics[0].partitions = [MetadataResponsePartition(0, 1)]
    shared, answer = topics[0], MetadataResponse(topics=topics)
    brokers = answer.brokers = [MetadataResponseBroker(1, "h", 1)]
    del topics
    there.release(answer)
    assert (answer.topics, len(brokers), len(shared.partitions)) == ([], 1, 1)


def test_an_answer_that_lists_one_item_again_is_emptied_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group that is named twice has one answer, which was freed in one piece."""
    empty = module._empty
    lengths: list[int] = []

    def counted(items: list[Any]) -> None:
        lengths.append(len(items))
        empty(items)

    monkeypatch.setattr(module, "_empty", counted)
    parts = [MetadataResponsePartition(0, number) for number in range(1000)]
    held = MetadataResponseTopic(0, "held", partitions=list(parts))
    answer = MetadataResponse(topics=[MetadataResponseTopic(0, "twice", partitions=parts), held] * 2)
    del parts
    release(answer)
    assert (lengths, len(held.partitions)) == ([4, 1000], 1000)


def test_each_item_comes_once_in_its_order_in_slices_too() -> None:
    items = [f"name-{number % 700}" for number in range(COUNT)]
    found, slices = finish(lambda: list(distinct(items)))
    assert found == list(dict.fromkeys(items)) == list(distinct(items))
    assert slices > 1


def test_of_items_with_the_same_key_the_first_one_is_kept() -> None:
    items = [(number % 700, number) for number in range(COUNT)]
    found, slices = finish(lambda: list(distinct(items, key=itemgetter(0))))
    assert found == items[:700] == list(distinct(items, key=itemgetter(0)))
    assert slices > 1


@pytest.mark.parametrize("count", [0, 1, 3, 5000, 20_000])
def test_a_table_in_slices_is_as_a_dict(count: int) -> None:
    def fill() -> tuple[dict[str, int], list[int | None]]:
        table = Table((f"k{number % (count // 2 + 1)}", number) for number in range(count))
        for number in range(3):
            table.setdefault(f"k{number}", lambda: -1)
        table["last"] = count
        assert "last" in table
        found = [table.get(key) for key in ("k0", "no")]
        content = dict(table.items())
        assert all(table[key] == value for key, value in content.items())
        table.clear()
        assert not list(table.items())
        return content, found

    plainly = fill()
    assert finish(fill)[0] == plainly
    assert len(plainly[0]) == max(3, min(count, count // 2 + 1)) + 1


def test_a_few_items_take_no_more_than_one_set() -> None:
    """A request may look for repetitions in each of a million entries."""
    made: list[int] = []

    class Counted(set[Any]):
        def __init__(self) -> None:
            made.append(1)

    parts = module.Parts(Counted)
    for number in range(module.UNDIVIDED):
        parts.of(number).add(number)
    assert len(made) == 1
    parts.of(-1).add(-1)
    assert len(made) == 1 + module.SETS
    assert sorted(item for part in parts.all for item in part) == list(range(-1, module.UNDIVIDED))


def test_repeated_items_are_found_in_slices_as_in_one_piece() -> None:
    items = [f"name-{number % 15_000}" for number in range(COUNT)]
    found, slices = finish(lambda: Repeated(items))
    assert [item in found for item in items] == [number % 15_000 < 5000 for number in range(COUNT)]
    assert "other" not in found
    assert slices > 1


@pytest.mark.parametrize("kind", [list, dict.fromkeys, set])
def test_an_unreferenced_structure_is_emptied_in_slices(kind: Callable[[Any], Any]) -> None:
    items = kind(range(500_000))
    _, slices = finish(lambda: emptied(items))
    assert not items
    assert slices > 1


def test_outside_of_slices_nothing_is_emptied() -> None:
    items = [1, 2]
    emptied(items)
    assert items == [1, 2]


def test_a_host_that_takes_the_cpu_away_does_not_end_a_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else short work would wait behind all long work for it. The clock of CPU stands still here:
    a garbage collection in this thread would use up the slice."""
    monkeypatch.setattr(time, "thread_time_ns", lambda: 0)

    def stopped() -> int:
        for _ in range(3):
            time.sleep(2 * SLICE_NS / 1e9)
            yield_slice()
        return 1

    assert finish(stopped) == (1, 1)


def test_work_that_computes_gives_way_after_a_slice() -> None:
    def computes() -> None:
        ends_ns = time.thread_time_ns() + 10 * SLICE_NS
        while time.thread_time_ns() < ends_ns:
            yield_slice()

    _, slices = finish(computes)
    assert 5 <= slices <= 11


def test_a_long_list_is_sorted_in_slices_and_its_copies_are_freed_in_slices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Three lists of a million names, freed in one piece, took a dozen milliseconds."""
    monkeypatch.setattr(module, "SLICE_NS", 0)
    names = [f"topic-{number * 7919 % COUNT}" for number in range(COUNT)]
    samples = names[:: COUNT // 200]
    held = []
    work = Work(lambda: in_order(names))
    found = work.run_slice()
    while not work.done:
        held.append(sum(map(sys.getrefcount, samples)))
        found = work.run_slice()
    held.append(sum(map(sys.getrefcount, samples)))
    assert found == sorted(names)
    assert max(before - after for before, after in pairwise(held)) <= len(samples) // 10


def test_work_does_not_pause_within_a_call_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SLICE_NS", 0)
    assert at_once(lambda: list(paced(range(100)))) == list(range(100))
    assert finish(lambda: at_once(lambda: list(paced(range(100))))) == (list(range(100)), 1)

    def fails() -> None:
        raise ValueError("within")

    with pytest.raises(ValueError, match="within"):
        finish(lambda: at_once(fails))
