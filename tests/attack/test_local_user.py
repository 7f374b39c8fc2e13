"""Another user of the same host: no way into the broker's processes, whichever of them has been restarted."""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.compat.raw import SocketPeer
from tests.conftest import BrokerFactory
from tests.peer.kbroker_node import KBroker

pytestmark = pytest.mark.slow

ROLES = ("control", "io 0", "network 0", "http", "cleaner")


def family(broker: KBroker) -> dict[str, psutil.Process]:
    """Every process of a broker by its role; the parent is ""."""
    parent = psutil.Process(broker.pid)
    found = {"": parent}
    for child in parent.children():
        with suppress(psutil.NoSuchProcess):
            found[" ".join(child.cmdline()).removeprefix("kbroker: ").strip()] = child
    return found


def unix_names(process: psutil.Process) -> list[str]:
    """Names of its Unix sockets, abstract ones with an @."""
    own = set()
    for each in Path(f"/proc/{process.pid}/fd").iterdir():
        try:
            own.add(str(each.readlink()))
        except FileNotFoundError:
            continue
    lines = Path("/proc/net/unix").read_text().splitlines()[1:]
    rows = [line.split(maxsplit=7) for line in lines]
    return [row[7] for row in rows if len(row) == 8 and f"socket:[{row[6]}]" in own]


def until(what: Callable[[], Any], seconds: float = 30) -> Any:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := what():
            return found
        time.sleep(0.02)
    raise AssertionError("it did not happen")


def successor(broker: KBroker, role: str, old: int) -> bool:
    now = family(broker)
    return role in now and now[role].pid != old


def creates_a_topic(broker: KBroker, name: str) -> bool:
    """Takes a network process, control and an IO worker."""
    request = CreateTopicsRequest([CreatableTopic(name, 1, 1)], 20_000, False)
    try:
        answer: Any = SocketPeer(int(broker.bootstrap.rpartition(":")[2])).ask(
            ApiKey.CREATE_TOPICS, 5, request
        )
    except OSError:
        return False
    return answer is not None and answer.topics[0].error_code in (0, 36)


def test_no_socket_between_processes_has_a_name_also_after_kill_9_of_each(
    broker_factory: BrokerFactory,
) -> None:
    broker = broker_factory({"num.network.threads": "1", "num.io.threads": "1"})
    until(lambda: set(ROLES) <= set(family(broker)))
    for number, role in enumerate(ROLES):
        before = family(broker)
        assert [unix_names(process) for process in before.values()] == [[] for _ in before]
        os.kill(before[role].pid, signal.SIGKILL)
        until(partial(successor, broker, role, before[role].pid))
        until(partial(creates_a_topic, broker, f"t{number}"))
    assert "Traceback" not in broker.logs()
