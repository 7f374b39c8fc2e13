from pathlib import Path

from tests.tuning.fakes import carrying, on, situation
from tests.tuning.knobs.asking import ask
from tuning.finding import Severity

PROCESS = "descriptors of a process (hard limit)"


def test_a_limit_below_the_need_of_logs_is_serious(tmp_path: Path) -> None:
    base = carrying(on(situation(tmp_path), files_limit=20000), partitions=100_000)
    found = ask(base, PROCESS)
    assert (found.severity, found.now) == (Severity.SERIOUS, "20000")
    assert int(found.proposed) >= 1.25 * 3 * 100_000 / 4
    assert found.remedy is not None
    assert found.remedy.apply == f"LimitNOFILE={found.proposed}"


def test_a_limit_below_the_need_of_connections_is_serious(tmp_path: Path) -> None:
    base = carrying(on(situation(tmp_path), files_limit=20000), connections=60_000)
    assert ask(base, PROCESS).severity is Severity.SERIOUS
    assert ask(carrying(base, connections=1000), PROCESS).severity is Severity.OK


def test_no_limit_is_the_kernels_ceiling(tmp_path: Path) -> None:
    assert ask(on(situation(tmp_path), files_limit=-1), PROCESS).now == "1048576"


def test_limits_of_the_host_apply_to_all_processes(tmp_path: Path) -> None:
    assert ask(situation(tmp_path, **{"fs.file-max": "10000"}), "fs.file-max").severity is Severity.SERIOUS
    assert ask(situation(tmp_path, fs__nr_open="1024"), "fs.nr_open").proposed == "100000"
