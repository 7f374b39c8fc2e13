import subprocess
from dataclasses import replace
from pathlib import Path

from tests.tuning.fakes import DISK, MOUNT, GiB, on, situation
from tuning.check import check
from tuning.script import SYSCTL_FILE, UDEV_FILE, apply_script, undo_script
from tuning.situation import Situation


def wrong_host(tmp_path: Path) -> Situation:
    base = situation(tmp_path, net__core__rmem_max="212992", net__ipv4__tcp_slow_start_after_idle="1")
    return on(
        base,
        memory=replace(base.host.memory, swap_bytes=GiB),
        disks=(replace(DISK, scheduler="bfq"),),
        mounts=(replace(MOUNT, options=frozenset({"nobarrier"})),),
        files_limit=1024,
    )


def test_each_sysctl_is_set_now_and_after_the_next_boot_and_taken_back(tmp_path: Path) -> None:
    findings = check(wrong_host(tmp_path))
    apply, undo = apply_script(findings), undo_script(findings)
    for name, new, old in (("vm.swappiness", "1", "60"), ("net.core.rmem_max", "1048576", "212992")):
        assert f"\nsysctl -w {name}={new}\n" in apply
        assert f"\n{name} = {new}\n" in apply
        assert f"\nsysctl -w {name}={old}\n" in undo
    assert "rm -f /etc/sysctl.d/60-kbroker.conf" in undo


def test_a_queue_gets_a_rule_for_when_its_disk_comes_again(tmp_path: Path) -> None:
    findings = check(wrong_host(tmp_path))
    assert 'KERNEL=="nvme0n1", ATTR{queue/scheduler}="none"' in apply_script(findings)
    assert "echo bfq > /sys/block/nvme0n1/queue/scheduler" in undo_script(findings)


def test_settings_of_an_earlier_script_stay_after_the_next_boot(tmp_path: Path) -> None:
    """A value that is right by now is in no later script."""
    kept = [line for line in apply_script(check(wrong_host(tmp_path))).splitlines() if "cat " in line]
    assert kept == [f"cat >> {file} <<'END'" for file in (SYSCTL_FILE, UDEV_FILE)]


def test_an_undo_leaves_what_an_earlier_script_kept(tmp_path: Path) -> None:
    findings = check(wrong_host(tmp_path))
    applied = apply_script(findings).split(f"cat >> {SYSCTL_FILE} <<'END'\n")[1].partition("END\n")[0]
    file = tmp_path / "60-kbroker.conf"
    lines = undo_script(findings).splitlines()
    start = lines.index(f"if [ -f {SYSCTL_FILE} ]; then")
    undo = "\n".join(["set -eu", *lines[start : lines.index("fi", start) + 1]])
    for earlier in ("kernel.earlier = 1\n", ""):
        file.write_text(earlier + applied)
        subprocess.run(["sh"], input=undo.replace(SYSCTL_FILE, str(file)), text=True, check=True)
        assert (file.read_text() if file.exists() else "") == earlier
        assert file.exists() == bool(earlier)


def test_a_value_that_no_file_keeps_says_so(tmp_path: Path) -> None:
    base = situation(tmp_path)
    findings = check(on(base, memory=replace(base.host.memory, transparent="always")))
    lines = apply_script(findings).splitlines()
    at = lines.index("echo madvise > /sys/kernel/mm/transparent_hugepage/enabled")
    assert "until the next boot" in lines[at + 1]
    assert "until the next boot" not in apply_script(check(wrong_host(tmp_path)))


def test_mounts_and_limits_are_left_to_a_hand(tmp_path: Path) -> None:
    lines = apply_script(check(wrong_host(tmp_path))).splitlines()
    assert [line[0] for line in lines if "remount" in line or "LimitNOFILE" in line] == ["#", "#"]


def test_both_are_shell(tmp_path: Path) -> None:
    findings = check(wrong_host(tmp_path))
    for text in (apply_script(findings), undo_script(findings)):
        assert subprocess.run(["sh", "-n"], input=text, text=True, check=False).returncode == 0


def test_a_fitting_host_gets_an_empty_one(tmp_path: Path) -> None:
    lines = apply_script(check(situation(tmp_path))).splitlines()
    assert [line for line in lines if not line.startswith("#")] == ["set -eu"]
