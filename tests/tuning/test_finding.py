import pytest

from tuning.finding import Finding, Means, Remedy, Severity, sorted_findings


def test_a_sysctl_is_applied_and_undone_by_its_value() -> None:
    remedy = Remedy(Means.SYSCTL, "net.ipv4.tcp_rmem", "1 2 3", "1 2 2")
    assert remedy.apply == "sysctl -w net.ipv4.tcp_rmem='1 2 3'"
    assert remedy.undo == "sysctl -w net.ipv4.tcp_rmem='1 2 2'"


def test_bytes_that_stood_for_a_ratio_are_undone_by_the_ratio() -> None:
    remedy = Remedy(Means.SYSCTL, "vm.dirty_bytes", "1000000", "20", "vm.dirty_ratio")
    assert remedy.undo == "sysctl -w vm.dirty_ratio=20"


def test_other_means_are_written_as_they_are_used() -> None:
    assert (
        Remedy(Means.SYSFS, "block/sda/queue/scheduler", "none", "bfq").apply
        == "echo none > /sys/block/sda/queue/scheduler"
    )
    assert Remedy(Means.MOUNT, "/data", "barrier=1", "nobarrier").undo == "mount -o remount,nobarrier /data"
    assert Remedy(Means.PROPERTY, "log.dirs", "/data").undo == "remove log.dirs"
    assert Remedy(Means.HAND, "buy a disk").undo == ""


def test_the_worst_comes_first_and_equals_keep_their_order() -> None:
    def of(name: str, severity: Severity) -> Finding:
        return Finding(name, severity, "", "", "", "")

    given = [of("a", Severity.OK), of("b", Severity.NOTE), of("c", Severity.SERIOUS), of("d", Severity.NOTE)]
    assert [each.knob for each in sorted_findings(given)] == ["c", "b", "d", "a"]


def test_json_has_the_commands_written_out() -> None:
    finding = Finding(
        "vm.swappiness",
        Severity.ADVICE,
        "60",
        "1",
        "why",
        "who",
        Remedy(Means.SYSCTL, "vm.swappiness", "1", "60"),
    )
    reported = finding.as_json()
    assert reported["severity"] == "advice"
    assert reported["remedy"] == {
        "means": "sysctl",
        "apply": "sysctl -w vm.swappiness=1",
        "undo": "sysctl -w vm.swappiness=60",
    }


@pytest.mark.parametrize(
    ("knob", "value", "shown"),
    [
        ("dirty limit (vm.dirty_bytes or vm.dirty_ratio)", "4499894272", "4.5 GB"),
        ("log.segment.bytes", "1073741824", "1.07 GB"),
        ("net.ipv4.tcp_rmem", "4096 131072 33554432", "4.1 kB, 131 kB, 33.6 MB"),
        ("net.core.rmem_max", "4194304", "4.19 MB"),
        ("reserved huge pages", "0", "0"),
        ("log.retention.bytes", "-1", "-1"),
        ("vm.max_map_count", "65530", "65530"),
        ("log.retention.bytes", "unset", "unset"),
        ("log.retention.bytes", "", ""),
    ],
)
def test_sizes_are_shown_with_a_unit_and_written_exactly(knob: str, value: str, shown: str) -> None:
    finding = Finding(knob, Severity.NOTE, value, value, "why", "source")
    assert (finding.now_shown, finding.proposed_shown) == (shown, shown)
    assert finding.as_json()["now"] == value
