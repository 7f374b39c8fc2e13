"""Settings with which the clients of a run connect to a running broker: TLS, a login, others.

The file is read by the command line of kbroker, which gives a reader here: a load test shares no
code with the broker. The players, Locust and the judge get the settings by the environment. Command
lines are shown by `ps`, and a run's folder is passed on: neither has a password.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from loadtest.settings import WrongSetting

CLIENT_SETTINGS = "LOADTEST_CLIENT_SETTINGS"
Reader = Callable[[Path, str, bool], tuple[dict[str, str], dict[str, str]]]
"""Settings with librdkafka's names, and those of security with Java's, from a file, HOST:PORT, and
whether a client in Java follows. It has connected to the broker with them. Raises NoBroker,
WrongSetting."""
readers: list[Reader] = []
"""The reader, if the command line of kbroker has given one."""


def client_settings() -> dict[str, Any]:
    """Settings for each client of librdkafka; a client's own come after them."""
    return _settings("librdkafka")


def java_settings() -> dict[str, str]:
    """Security settings for a client in Java."""
    return _settings("java")


def give_settings(librdkafka: dict[str, str], java: dict[str, str]) -> None:
    """Set them for this process, and those that it starts from now on."""
    os.environ[CLIENT_SETTINGS] = json.dumps({"librdkafka": librdkafka, "java": java})


def read_settings(file: Path, target: str, java: bool) -> None:
    """Set those of a file, with which the broker at HOST:PORT answers. java: also those for a
    client in Java. Raises NoBroker, WrongSetting."""
    if not readers:
        raise WrongSetting("--command-config is read by `kbroker loadtest` and `kbroker judge`: start it so")
    give_settings(*readers[-1](file, target, java))


def _settings(kind: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(os.environ.get(CLIENT_SETTINGS) or "{}").get(kind, {})
    return found
