"""The settings of a file for the clients of a load test, which shares no code with the broker."""

from pathlib import Path

from kbroker.cli import client_properties
from kbroker.cli.connection import Connection
from kbroker.cli.failures import CommandFailed, UsageFailed
from loadtest.brokers import NoBroker
from loadtest.settings import WrongSetting

LOAD_TIMEOUT_S = 15.0


def read(file: Path, target: str, java: bool) -> tuple[dict[str, str], dict[str, str]]:
    """The reader of loadtest.client_settings. java: also with the names of clients in Java. Raises
    NoBroker, WrongSetting."""
    try:
        settings = client_properties.read(file)
        found = client_properties.to_java(settings) if java else {}
        connection = Connection(target, settings, LOAD_TIMEOUT_S, file)
        connection.reach()
    except UsageFailed as failure:
        raise WrongSetting(failure.message) from failure
    except CommandFailed as failure:
        raise NoBroker(failure.message) from failure
    return connection.settings, found
