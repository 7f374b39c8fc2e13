from pathlib import Path

from tests.tuning.fakes import FakeRoots
from tuning.host.network import network_of


def test_interfaces_that_are_up_tell_speed_queues_and_offloads(tmp_path: Path) -> None:
    fake = FakeRoots(tmp_path)
    for name, state, speed in (
        ("eth0", "up", "10000"),
        ("eth1", "down", "1000"),
        ("lo", "up", "0"),
        ("eth2", "up", "65535"),
        ("veth", "up", "-1"),
    ):
        fake.sys(f"class/net/{name}/operstate", state + "\n").sys(f"class/net/{name}/speed", speed + "\n")
    fake.sys("class/net/eth0/queues/rx-0/rps_cpus", "0000,00000000\n").sys(
        "class/net/eth0/queues/rx-1/rps_cpus", "f\n"
    )
    found = network_of(fake.roots, lambda name: {"tso": name == "eth0"})
    assert [(each.name, each.speed, each.queues, each.spread) for each in found.interfaces] == [
        ("eth0", 1.25e9, 2, True),
        ("eth2", None, 1, False),
        ("veth", None, 1, False),
    ]
    assert found.speed == 1.25e9
    assert found.interfaces[0].offloads == {"tso": True}


def test_the_speed_of_a_virtual_interface_is_unknown(tmp_path: Path) -> None:
    """Each pair of a container's reports 10 Gbit/s. A bond reports the sum of its links."""
    fake = FakeRoots(tmp_path)
    fake.sys("class/net/eth0/operstate", "up\n").sys("class/net/eth0/speed", "1000\n")
    for name, speed in (("bond0", "2000"), ("veth1", "10000")):
        fake.sys(f"devices/virtual/net/{name}/operstate", "up\n")
        fake.sys(f"devices/virtual/net/{name}/speed", speed + "\n")
        (fake.roots.sys / "class/net" / name).symlink_to(fake.roots.sys / "devices/virtual/net" / name)
    fake.sys("devices/virtual/net/bond0/bonding/mode", "802.3ad 4\n")
    found = network_of(fake.roots, lambda _: {})
    assert [(each.name, each.speed) for each in found.interfaces] == [
        ("bond0", 250e6),
        ("eth0", 125e6),
        ("veth1", None),
    ]
    assert found.speed == 250e6


def test_counters_of_the_kernel_are_summed(tmp_path: Path) -> None:
    fake = FakeRoots(tmp_path)
    fake.proc("net/softnet_stat", "000a 00000010 0\n000b 00000001 0\n")
    fake.proc(
        "net/netstat", "TcpExt: SyncookiesSent ListenOverflows\nTcpExt: 3 7\nIpExt: InNoRoutes\nIpExt: 0\n"
    )
    fake.proc("sys/net/netfilter/nf_conntrack_count", "5\n")
    found = network_of(fake.roots, lambda _: {})
    assert (found.dropped, found.overflows, found.tracked, found.most_tracked) == (17, 7, 5, None)


def test_a_missing_value_is_none(tmp_path: Path) -> None:
    found = network_of(FakeRoots(tmp_path).roots, lambda _: {})
    assert (found.interfaces, found.speed, found.dropped, found.overflows) == ((), None, None, None)


def test_interrupts_tell_the_cores_that_serve_them(tmp_path: Path) -> None:
    fake = FakeRoots(tmp_path).sys("class/net/eth0/operstate", "up\n")
    for number, core in ((41, "0\n"), (42, "3\n")):
        fake.sys(f"class/net/eth0/device/msi_irqs/{number}", "msix\n")
        fake.proc(f"irq/{number}/effective_affinity_list", core)
    (interface,) = network_of(fake.roots, lambda _: {}).interfaces
    assert interface.interrupt_cores == ("0", "3")
