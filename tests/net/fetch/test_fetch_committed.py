"""read_committed fetches use the compiled path if no transaction was aborted, with the same answers
as Python."""

import multiprocessing
from ctypes import c_int
from typing import Any

import pytest

from kbroker.ipc.layout import Slot
from kbroker.net.fetch.fetches import Fetches
from tests.net.conftest import NodeFactory
from tests.net.requests import fetch, filled, offsets

END = 20
COMMITTED = 1


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Any:
    """How many fetches came to Python in the network process."""
    count = multiprocessing.Value(c_int, 0)
    take = Fetches.take

    def counted(self: Fetches, *arguments: Any) -> None:
        count.value += 1
        take(self, *arguments)

    monkeypatch.setattr(Fetches, "take", counted)
    return count


def test_only_ranges_with_aborted_transactions_come_to_python(node_factory: NodeFactory, taken: Any) -> None:
    node, _ = filled(node_factory)
    link = node.connect()
    words = node.shared.slots[0]
    words[Slot.LAST_ABORTED] = -1
    fetch(link, 0, isolation=COMMITTED)  # shows the kernel the files
    before = taken.value
    for offset in range(0, END, 2):
        (part,) = fetch(link, offset, isolation=COMMITTED).responses[0].partitions
        assert offsets(part.records) == list(range(offset, END))
        assert part.aborted_transactions == []
    assert taken.value == before
    words[Slot.LAST_ABORTED] = 9
    fetch(link, 10, isolation=COMMITTED)
    assert taken.value == before
    fetch(link, 9, isolation=COMMITTED)
    assert taken.value == before + 1


@pytest.mark.parametrize("version", [4, 11, 12, 16])
@pytest.mark.parametrize("stable", [0, 6, 18, END])
def test_the_kernel_answers_what_python_would(node_factory: NodeFactory, version: int, stable: int) -> None:
    node, size = filled(node_factory)
    link = node.connect()
    node.worker.publish(0, END, 10 * size, stable=stable)
    words = node.shared.slots[0]
    for offset in (0, 3, 5, 6, 12, 19, END):
        for most in (1, 2 * size + 7, 1 << 20):
            answers = []
            for last_aborted in (END, -1):  # Python, kernel
                words[Slot.LAST_ABORTED] = last_aborted
                how = {"isolation": COMMITTED, "min_bytes": 0, "partition_max_bytes": most}
                answers.append(fetch(link, offset, version, **how).responses)
            assert repr(answers[0]) == repr(answers[1])
            (part,) = answers[1][0].partitions
            given = offsets(part.records)
            assert bool(given) == (offset < stable)
            assert all(each < stable for each in given)
