"""The machine's facts name what makes a figure of the page cache another one."""

from pathlib import Path

from bench.machine import _reclaim, describe
from tests.tuning.fakes import FakeRoots
from tests.tuning.host.kdamond import with_kdamond


def test_a_host_that_takes_untouched_pages_is_named(tmp_path: Path) -> None:
    fake = FakeRoots(tmp_path)
    assert _reclaim(fake.roots) == ""
    assert _reclaim(with_kdamond(fake).roots) == "; proactive reclaim (DAMON) of pages untouched for 60 s"


def test_the_facts_of_this_machine_are_text(tmp_path: Path) -> None:
    facts = describe(tmp_path)
    assert facts["memory"].partition(" ")[2].startswith("GiB")
    assert all(facts.values())


def test_the_disk_of_a_folder_that_is_not_made_yet_is_its_parents(tmp_path: Path) -> None:
    assert describe(tmp_path / "not" / "there")["disk"] == describe(tmp_path)["disk"] != "unknown"
