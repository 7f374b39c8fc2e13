"""Costs are read from /proc as the kernel writes it."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bench.measure import (
    TICKS_PER_SECOND,
    Stat,
    cpu_seconds,
    parse_pss_bytes,
    parse_stat,
    pss_bytes,
    tree_of,
    tree_pids,
)

LINE = (
    "4061 (kbroker: net) 0)) S 1 4061 4061 0 -1 4194304 1 2 3 4 "
    "700 150 40 10 20 0 25 0 4242 1000000 500 18446744073709551615 0 0"
)
ROLLUP = """55d0-7ffd ---p 00000000 00:00 0    [rollup]
Rss:              800000 kB
Pss:              351234 kB
Pss_Dirty:        300000 kB
Pss_Anon:         290000 kB
"""


def make_process(proc: Path, pid: int, parent: int, ticks: int, pss_kib: int) -> None:
    folder = proc / str(pid)
    folder.mkdir()
    fields = f"{pid} (name) S {parent} 0 0 0 0 0 0 0 0 0 {ticks} 0 0 0 20 0 1 0 0 0"
    (folder / "stat").write_text(fields)
    (folder / "smaps_rollup").write_text(f"head\nRss: 9 kB\nPss: {pss_kib} kB\n")


def test_a_stat_line_is_parsed_though_the_name_holds_blanks_and_parentheses() -> None:
    assert parse_stat(LINE) == Stat(pid=4061, parent=1, own_ticks=850, reaped_ticks=50)


def test_pss_is_the_rollup_line_in_bytes() -> None:
    assert parse_pss_bytes(ROLLUP) == 351234 * 1024


def test_a_rollup_without_pss_is_an_error() -> None:
    with pytest.raises(ValueError, match="no Pss"):
        parse_pss_bytes("Rss: 1 kB\nPss_Anon: 2 kB\n")


def test_the_tree_holds_all_descendants_and_no_other_process() -> None:
    parents = {1: 0, 10: 1, 11: 10, 12: 11, 20: 1, 21: 20}
    stats = {pid: Stat(pid, parent, 0, 0) for pid, parent in parents.items()}
    assert [stat.pid for stat in tree_of(10, stats)] == [10, 11, 12]
    assert tree_of(99, stats) == []


def test_costs_are_summed_over_the_tree(tmp_path: Path) -> None:
    make_process(tmp_path, 10, 1, TICKS_PER_SECOND, 100)
    make_process(tmp_path, 11, 10, 2 * TICKS_PER_SECOND, 20)
    make_process(tmp_path, 30, 1, 500 * TICKS_PER_SECOND, 9999)
    (tmp_path / "meminfo").write_text("not a process")
    assert cpu_seconds(10, tmp_path) == 3.0
    assert pss_bytes(10, tmp_path) == 120 * 1024


def test_a_real_tree_is_followed_and_its_ended_children_still_count() -> None:
    burn = "import time\nend = time.process_time() + 0.1\nwhile time.process_time() < end: pass\n"
    script = (
        "import subprocess, sys\n"
        f"subprocess.run([sys.executable, '-c', {burn!r}])\n"
        "child = subprocess.Popen(['sleep', '60'])\n"
        "print(child.pid, flush=True)\n"
        "sys.stdin.read()\n"
        "child.kill(); child.wait()\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert parent.stdin is not None
    assert parent.stdout is not None
    with parent:
        child = int(parent.stdout.readline())
        assert tree_pids(parent.pid) == [parent.pid, child]
        assert cpu_seconds(parent.pid) >= 0.09
        assert pss_bytes(parent.pid) > 1 << 20
        parent.stdin.close()


def test_the_own_process_costs_what_the_kernel_says() -> None:
    before = time.process_time()
    assert cpu_seconds(os.getpid()) >= before
