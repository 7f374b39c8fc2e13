import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.tuning.fakes import FakeRoots
from tests.tuning.verify.samples import QUEUE, SYSCTL, host_change, sysctl_change, value_of
from tuning.finding import Means, Remedy
from tuning.host.roots import Roots
from tuning.verify.host_change import UNDO_FILE, HostValues, LeftBehind
from tuning.verify.interrupt import Interrupted, ended_by_signals


@pytest.fixture
def roots(tmp_path: Path) -> Roots:
    """A host with the values that the changes of the samples find."""
    return FakeRoots(tmp_path / "root").sys(QUEUE, "128\n").roots


def test_values_go_there_and_back(roots: Roots, tmp_path: Path) -> None:
    with HostValues(roots, tmp_path) as host:
        host.apply(host_change().remedy)
        assert value_of(roots) == "1024"
        host.restore(host_change().remedy)
        assert value_of(roots) == "128"
        host.restore(host_change().remedy)  # once is enough
    assert not (tmp_path / UNDO_FILE).exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_puts_everything_back_what_was_kept_included(
    roots: Roots, tmp_path: Path, number: signal.Signals
) -> None:
    before = signal.getsignal(number)

    def interrupted() -> None:
        with ended_by_signals(), HostValues(roots, tmp_path) as host:
            host.keep(sysctl_change().remedy)
            host.apply(host_change().remedy)
            os.kill(os.getpid(), number)

    with pytest.raises(Interrupted) as caught:
        interrupted()
    assert value_of(roots) == "128"
    assert roots.sysctl(SYSCTL) == "4194304"
    assert caught.value.exit_code == 128 + number
    assert signal.getsignal(number) is before
    assert not (tmp_path / UNDO_FILE).exists()


def test_a_second_signal_does_not_stop_the_way_back(roots: Roots, tmp_path: Path) -> None:
    def interrupted() -> None:
        with ended_by_signals(), HostValues(roots, tmp_path) as host:
            host.apply(host_change().remedy)
            try:
                os.kill(os.getpid(), signal.SIGINT)
            finally:
                os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Interrupted):
        interrupted()
    assert value_of(roots) == "128"


def test_an_error_puts_everything_back(roots: Roots, tmp_path: Path) -> None:
    def failing() -> None:
        with HostValues(roots, tmp_path) as host:
            host.keep(host_change().remedy)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing()
    assert value_of(roots) == "128"


def test_a_kept_change_stays_at_an_orderly_end(roots: Roots, tmp_path: Path) -> None:
    with HostValues(roots, tmp_path) as host:
        host.keep(host_change().remedy)
        host.apply(sysctl_change().remedy)
    assert value_of(roots) == "1024"
    assert roots.sysctl(SYSCTL) == "4194304"
    assert not (tmp_path / UNDO_FILE).exists()


def test_a_value_that_another_takes_the_place_of_comes_back(roots: Roots, tmp_path: Path) -> None:
    """vm.dirty_bytes and vm.dirty_ratio: what is set makes the other one 0."""
    remedy = Remedy(Means.SYSCTL, "vm.dirty_bytes", "1000000", "20", "vm.dirty_ratio")
    with HostValues(roots, tmp_path) as host:
        host.apply(remedy)
        (roots.proc / "sys/vm/dirty_ratio").write_text("0\n")
    assert roots.sysctl("vm.dirty_ratio") == "20"


def test_the_way_back_is_on_disk_before_the_change_and_a_killed_run_is_noticed(
    roots: Roots, tmp_path: Path
) -> None:
    host = HostValues(roots, tmp_path)
    host.apply(host_change().remedy)
    host.apply(sysctl_change().remedy)
    script = (tmp_path / UNDO_FILE).read_text()
    assert f"echo 128 > /sys/{QUEUE}\n" in script
    assert script.index("sysctl -w net.core.rmem_max=4194304") < script.index("echo 128")
    assert subprocess.run(["sh", "-n"], input=script, text=True, check=False).returncode == 0
    with pytest.raises(LeftBehind, match=UNDO_FILE):
        HostValues(roots, tmp_path)


def test_a_value_that_cannot_be_set_changes_nothing(roots: Roots, tmp_path: Path) -> None:
    missing = host_change("block/none/queue/read_ahead_kb").remedy
    with HostValues(roots, tmp_path) as host:
        with pytest.raises(OSError, match="none"):
            host.apply(missing)
        host.apply(host_change().remedy)
    assert value_of(roots) == "128"


def test_one_value_that_cannot_be_put_back_does_not_keep_the_others_from_it(
    roots: Roots, tmp_path: Path
) -> None:
    def stuck() -> None:
        with HostValues(roots, tmp_path) as host:
            host.apply(host_change().remedy)
            host.apply(sysctl_change().remedy)
            gone = roots.proc / "sys/net/core"
            gone.rename(gone.with_name("moved"))

    with pytest.raises(OSError, match="could not be put back"):
        stuck()
    assert value_of(roots) == "128"
    assert "net.core.rmem_max" in (tmp_path / UNDO_FILE).read_text()
