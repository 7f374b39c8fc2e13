"""Each process of a running broker has given up what it does not need, and says so."""

from pathlib import Path

import psutil
import pytest

from kbroker.supervisor.confinement import capabilities, landlock
from tests.attack.processes import ROLES, family, until
from tests.conftest import BrokerFactory
from tests.peer.compaction import leave_dirt
from tests.peer.kbroker_node import KBroker
from tests.peer.scrape import base, get
from tests.supervisor.confinement.child import in_child
from tests.supervisor.confinement.kernel_features import has_seccomp

pytestmark = pytest.mark.slow

SETTINGS = {"num.network.threads": "1", "num.io.threads": "1"}
FILTERED = "2"


def status(process: psutil.Process) -> dict[str, str]:
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return dict(line.split(":\t", 1) for line in lines)


def children(broker: KBroker) -> dict[str, dict[str, str]]:
    return {role: status(process) for role, process in family(broker).items() if role}


@pytest.mark.skipif(in_child(has_seccomp) != "True", reason="this kernel has no seccomp filters")
def test_every_child_is_confined_and_metrics_and_status_show_it(broker_factory: BrokerFactory) -> None:
    broker = broker_factory(SETTINGS)
    assert get(base(broker) + "/healthz")[0] == 200  # the first request starts http
    leave_dirt(broker.bootstrap)  # starts the cleaner
    until(lambda: set(ROLES) <= set(family(broker)))
    until(lambda: {lines["Seccomp"] for lines in children(broker).values()} == {FILTERED})
    found = children(broker)
    assert len(found) == len(ROLES)
    for role, lines in found.items():
        kept: tuple[int, ...] = (
            capabilities.OF_READERS if role.startswith("network") else capabilities.OF_WRITERS
        )
        kept = capabilities.OF_OBSERVERS if role == "http" else kept
        assert int(lines["CapEff"], 16) & ~sum(1 << number for number in kept) == 0, role
    page = get(base(broker) + "/metrics")[2]
    ways = ["capabilities", "seccomp", *(["landlock"] if landlock.version() else [])]
    for way in ways:
        assert f'kbroker_process_confined{{confinement="{way}",process="network-0"}} 1' in page
    assert 'kbroker_process_memory_bytes{process="network-0",type="pss"}' in page, "http sees the others"


def test_the_setting_turns_it_off(broker_factory: BrokerFactory) -> None:
    broker = broker_factory(SETTINGS | {"kbroker.confine.processes": "false"})
    assert {lines["Seccomp"] for lines in children(broker).values()} == {"0"}
    assert "kbroker_process_confined{" not in get(base(broker) + "/metrics")[2]
