"""The page of a client: words with one writer each, and histograms that do not overlap."""

from pathlib import Path

from loadtest.histogram import BUCKETS
from loadtest.page import SLOTS, Page, Slot, Times


def test_two_processes_see_the_same_words(tmp_path: Path) -> None:
    path = tmp_path / "pages" / "one.page"
    made = Page(path, create=True)
    opened = Page(path)
    assert [opened[slot] for slot in Slot] == [0] * len(Slot)
    for slot in Slot:
        opened[slot] = 10 + slot
    made.add(Slot.SENT, 5)
    assert [made[slot] for slot in Slot if slot is not Slot.SENT] == [
        10 + slot for slot in Slot if slot is not Slot.SENT
    ]
    assert opened[Slot.SENT] == 19


def test_each_histogram_has_words_of_its_own(tmp_path: Path) -> None:
    page = Page(tmp_path / "one.page", create=True)
    assert max(Slot) < SLOTS
    for which in Times:
        page.times(which)[:] += 1 + which
    assert [page.times(which).tolist() for which in Times] == [[1 + which] * BUCKETS for which in Times]
    assert [page[slot] for slot in Slot] == [0] * len(Slot)
    assert len(page.words) == SLOTS + len(Times) * BUCKETS


def test_a_page_is_created_empty_and_removed_once(tmp_path: Path) -> None:
    path = tmp_path / "one.page"
    Page(path, create=True)[Slot.DONE] = 1
    page = Page(path, create=True)
    assert page[Slot.DONE] == 0
    page.unlink()
    page.unlink()
    assert not path.exists()
