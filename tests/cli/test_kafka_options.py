"""An option of Apache Kafka's tools ends with the counterpart that a command has."""

import re
from typing import Any

import pytest
import typer

from kbroker.cli.commands import application
from kbroker.cli.kafka_options import BY_COMMAND, OF_PROPERTY
from tests.cli.conftest import Shell

WHOLE: Any = typer.main.get_command(application())

LINES = [
    ("topics --list", "No such option: --list: the command is `kbroker topics list`; see"),
    ("topics --create --topic orders", "--create: the command is `kbroker topics create`"),
    ("groups --describe --group billing", "--describe: the command is `kbroker groups describe`"),
    ("topics create --topic orders", "--topic: TOPIC is an argument: `kbroker topics create TOPIC`"),
    ("consume --topic orders", "--topic: TOPIC is an argument: `kbroker consume TOPIC`"),
    ("produce --topic orders", "--topic: TOPIC is an argument: `kbroker produce TOPIC`"),
    ("offsets --topic orders", "TOPIC[:PARTITIONS] is an argument: `kbroker offsets TOPIC[:PARTITIONS]`"),
    ("groups describe --group billing", "GROUP is an argument: `kbroker groups describe GROUP`"),
    ("transactions describe --transactional-id a", "TRANSACTIONAL-ID is an argument"),
    ("consume t --timeout-ms 500", "--timeout-ms: here it is --idle-timeout, in seconds; see"),
    ("configs describe --entity-type topics", "--entity-type: here it is the arguments ENTITY NAME"),
    ("topics list --bootstrap-server h:1", "(Possible options: --bootstrap)"),
    ("consume t --property print.key=true", "here it is --print-key"),
    ("produce t --property parse.key=true", "here it is --key-separator"),
    ("topics --frob list", "--frob: options of a command follow its name"),
    ("topics list --=x", "No such option: --; see"),
]


@pytest.mark.parametrize(("line", "part"), LINES)
def test_a_habit_is_answered_with_the_next_step(shell: Shell, line: str, part: str) -> None:
    (reason,) = shell(*line.split(), code=2).stderr.splitlines()
    assert part in reason


def options(path: str) -> set[str]:
    command = WHOLE
    for name in path.split():
        command = command.commands[name]
    return {opt for each in command.params for opt in each.opts}


@pytest.mark.parametrize("path", BY_COMMAND)
def test_a_counterpart_exists_and_the_option_itself_does_not(path: str) -> None:
    for option, text in BY_COMMAND[path].items():
        assert option not in options(path)
        assert set(re.findall(r"--[a-z-]+", re.sub("`.*`", "", text))) <= options(path), text


def test_the_counterparts_of_properties_exist() -> None:
    for text in OF_PROPERTY.values():
        assert set(re.findall(r"--[a-z-]+", text)) <= options("consume") | options("produce")
