"""Options of Apache Kafka's tools that a command lacks, and their replacements, for users who know
the tools. Pure."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

_ENTITY = "the arguments ENTITY NAME"
_PRINTED = "--print-key, --print-headers, --print-timestamp or --print-offset"

BY_COMMAND: Final[Mapping[str, Mapping[str, str]]] = {
    "acls add": {
        "--allow-principal": "--principal",
        "--deny-principal": "--principal with --deny",
        "--allow-host": "--host",
        "--deny-host": "--host with --deny",
        "--resource-pattern-type": "--prefixed",
    },
    "acls remove": {
        "--allow-principal": "--principal",
        "--deny-principal": "--principal with --deny",
        "--resource-pattern-type": "--prefixed",
        "--force": "--yes",
    },
    "cluster log-dirs": {"--topic-list": "--topic"},
    "configs alter": {
        "--add-config": "--set",
        "--entity-type": _ENTITY,
        "--entity-name": _ENTITY,
        "--entity-default": "--default",
    },
    "configs describe": {
        "--entity-type": _ENTITY,
        "--entity-name": _ENTITY,
        "--entity-default": "--default",
    },
    "consume": {
        "--command-property": "--property",
        "--consumer-property": "--property",
        "--formatter": "--format",
        "--formatter-property": _PRINTED,
        "--include": "the argument TOPIC",
        "--timeout-ms": "--idle-timeout, in seconds",
        "--whitelist": "the argument TOPIC",
    },
    "groups describe": {"--all-groups": "--all", "--verbose": "--members"},
    "log dump": {"--deep-iteration": "--deep", "--files": "the argument FILE"},
    "offsets": {"--time": "--at or --max-timestamp"},
    "produce": {
        "--command-property": "--property",
        "--compression-codec": "--compression",
        "--producer-property": "--property",
        "--reader-property": "--key-separator, --headers-separator or --null-marker",
        "--request-required-acks": "--acks",
        "--request-timeout-ms": "--timeout, in seconds",
    },
    "topics delete-records": {"--offset-json-file": "the argument TOPIC:PARTITION:OFFSET"},
    "topics describe": {"--under-replicated-partitions": "`kbroker topics list --under-replicated`"},
}
"""Command -> option of Kafka's tool for the same task -> the replacement in kbroker."""

OF_PROPERTY: Final[Mapping[str, str]] = {
    "print.key": "--print-key",
    "print.headers": "--print-headers",
    "print.timestamp": "--print-timestamp",
    "print.offset": "--print-offset",
    "print.partition": "--print-offset",
    "line.separator": "--delimiter",
    "key.separator": "--separator of `consume`, --key-separator of `produce`",
    "headers.separator": "--separator of `consume`, --headers-separator of `produce`",
    "parse.key": "--key-separator",
    "parse.headers": "--headers-separator",
    "headers.delimiter": "--headers-separator",
    "null.marker": "--null-marker",
}
"""Names that --property of the console tools has, and an option that does the same."""


def instead(option: str, command: Any, path: str) -> str:
    """The part of a message about an option that a command lacks; empty without a counterpart.

    command: of the parser; path: its name with those of its groups, `kbroker topics`."""
    word = option.lstrip("-")
    if word in getattr(command, "commands", ()):
        return f"the command is `{path} {word}`"
    for name in _arguments(command):
        if word and re.match(rf"{re.escape(word)}\b(?!-)", name, re.IGNORECASE):
            return f"{name} is an argument: `{path} {name}`"
    found = BY_COMMAND.get(path.partition(" ")[2], {}).get(option, "")
    return found and f"here it is {found}"


def _arguments(command: Any) -> Iterable[str]:
    """The arguments as the help names them, without the brackets of one that may be left out."""
    for each in command.params:
        if each.param_type_name == "argument":
            name = str(each.metavar or each.name.upper())
            yield name[1:-1] if name.startswith("[") else name
