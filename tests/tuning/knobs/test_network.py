from dataclasses import replace
from pathlib import Path

import pytest

from tests.tuning.fakes import carrying, on, situation
from tests.tuning.knobs.asking import ask
from tuning.finding import Severity
from tuning.host.network import Interface, Network
from tuning.situation import Situation


def with_network(base: Situation, *interfaces: Interface, **facts: object) -> Situation:
    return on(base, network=replace(Network(interfaces), **facts))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["net.core.rmem_max", "net.core.wmem_max"])
def test_local_clients_need_limits_as_large_as_their_buffers(tmp_path: Path, name: str) -> None:
    found = ask(situation(tmp_path, **{name.replace(".", "__"): "212992"}), name)
    assert (found.severity, found.proposed) == (Severity.ADVICE, "1048576")
    assert "ADR 0010" in found.source


def test_windows_follow_speed_and_round_trip_of_remote_clients(tmp_path: Path) -> None:
    base = with_network(carrying(situation(tmp_path), rtt_ms=20.0), Interface("eth0", 1.25e9))
    found = ask(base, "net.ipv4.tcp_rmem")
    assert (found.now, found.proposed) == ("4096 131072 6291456", "4096 131072 50000000")
    assert ask(carrying(base, remote_clients=False), "net.ipv4.tcp_rmem").severity is Severity.OK


@pytest.mark.parametrize("name", ["net.core.somaxconn", "net.ipv4.tcp_max_syn_backlog"])
def test_queues_of_connections_matter_when_many_may_come_at_once(tmp_path: Path, name: str) -> None:
    base = situation(tmp_path, **{name.replace(".", "__"): "128"})
    assert ask(base, name).severity is Severity.OK
    assert ask(carrying(base, connections=20000), name).proposed == "4096"


def test_slow_start_after_idle_is_for_remote_clients(tmp_path: Path) -> None:
    base = situation(tmp_path, net__ipv4__tcp_slow_start_after_idle="1")
    assert ask(base, "tcp_slow_start_after_idle").proposed == "0"
    assert ask(carrying(base, remote_clients=False), "tcp_slow_start_after_idle").proposed == ""


def test_counters_that_moved_are_notes(tmp_path: Path) -> None:
    base = with_network(situation(tmp_path), dropped=5, overflows=7)
    assert ask(base, "packets dropped before their protocol").severity is Severity.NOTE
    overflows = ask(base, "listen queue overflows")
    assert overflows.severity is Severity.NOTE
    assert "socket.listen.backlog.size is net.core.somaxconn" in overflows.why
    quiet = with_network(situation(tmp_path), dropped=0, overflows=0)
    assert ask(quiet, "packets dropped before their protocol").severity is Severity.OK


def test_a_table_of_connections_that_will_be_full_is_serious(tmp_path: Path) -> None:
    base = with_network(carrying(situation(tmp_path), connections=5000), tracked=1000, most_tracked=6000)
    assert ask(base, "tracked connections").severity is Severity.SERIOUS
    assert ask(carrying(base, connections=100), "tracked connections").severity is Severity.OK


def test_an_interface_too_slow_for_the_consumers_is_serious(tmp_path: Path) -> None:
    base = carrying(situation(tmp_path), write_rate=50e6, groups=3)
    assert ask(with_network(base, Interface("eth0", 125e6)), "eth0: speed").severity is Severity.SERIOUS
    assert ask(with_network(base, Interface("eth0", 1.25e9)), "eth0: speed").severity is Severity.OK
    assert ask(with_network(base, Interface("eth0", None)), "eth0: speed").severity is Severity.UNSEEN


def test_offloads_that_are_off_are_named(tmp_path: Path) -> None:
    base = with_network(situation(tmp_path), Interface("eth0", offloads={"tso": False, "gro": True}))
    found = ask(base, "eth0: offloads")
    assert (found.now, found.proposed) == ("gro", "on: tso")
    assert found.remedy is not None
    assert found.remedy.apply == "ethtool -K eth0 tso on"


def test_a_fast_interface_wants_queues_for_its_cores(tmp_path: Path) -> None:
    base = situation(tmp_path)
    assert (
        ask(with_network(base, Interface("e", 1.25e9, queues=1)), "receive queues").severity
        is Severity.ADVICE
    )
    assert (
        ask(with_network(base, Interface("e", 1.25e9, queues=1, spread=True)), "receive queues").severity
        is Severity.OK
    )
    assert ask(with_network(base, Interface("e", 1.25e8, queues=1)), "receive queues").severity is Severity.OK


def test_an_interface_is_not_too_slow_for_a_rate_that_was_only_assumed(tmp_path: Path) -> None:
    base = on(carrying(situation(tmp_path), write_rate=50e6), network=Network((Interface("eth0", 125e6),)))
    assert ask(base, "speed").severity is Severity.SERIOUS
    assert ask(replace(base, assumed=frozenset({"write_rate"})), "speed").severity is Severity.OK


def test_interrupts_of_all_queues_on_one_core_are_to_be_spread(tmp_path: Path) -> None:
    fast = Interface("eth0", 1.25e9, queues=4)
    together = with_network(situation(tmp_path), replace(fast, interrupt_cores=("0", "0", "0", "0")))
    assert ask(together, "eth0: interrupts").severity is Severity.ADVICE
    spread = with_network(situation(tmp_path), replace(fast, interrupt_cores=("0", "1", "2", "3")))
    assert ask(spread, "eth0: interrupts").severity is Severity.OK
    assert ask(with_network(situation(tmp_path), fast), "eth0: interrupts").severity is Severity.UNSEEN


def test_packet_steering_is_for_interfaces_with_fewer_queues_than_cores(tmp_path: Path) -> None:
    base = situation(tmp_path)
    cores = base.host.processors.cores
    name = "eth0: receive packet steering"
    wide = ask(with_network(base, Interface("eth0", 1.25e9, queues=cores, spread=True)), name)
    assert (wide.severity, wide.now, wide.proposed) == (Severity.NOTE, "on", "off")
    narrow = with_network(base, Interface("eth0", 1.25e9, queues=1, spread=True))
    assert ask(narrow, name).severity is Severity.OK
    off = ask(with_network(base, Interface("eth0", 1.25e9, queues=cores)), name)
    assert (off.severity, off.now) == (Severity.OK, "off")
