"""The processes of a running broker, by role."""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psutil

from tests.peer.kbroker_node import KBroker

ROLES = ("control", "io 0", "network 0", "http", "cleaner")


def family(broker: KBroker) -> dict[str, psutil.Process]:
    """Every process of a broker by its role; the parent is ""."""
    parent = psutil.Process(broker.pid)
    found = {"": parent}
    for child in parent.children():
        with suppress(psutil.NoSuchProcess):
            found[" ".join(child.cmdline()).removeprefix("kbroker: ").strip()] = child
    return found


def until(what: Callable[[], Any], seconds: float = 90) -> Any:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := what():
            return found
        time.sleep(0.02)
    raise AssertionError("it did not happen")
