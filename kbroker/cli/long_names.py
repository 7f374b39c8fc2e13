"""Length limits of names and values in arguments.

Apache Kafka's strings have at most 32767 bytes. Client libraries also send longer ones, some with
an overflowed length, and the broker then closes the connection without an answer.
"""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import typer

from kbroker.cli.completion import complete_topic
from kbroker.cli.failures import UsageFailed
from kbroker.protocol.bounds import MAX_STRING_BYTES, MAX_TOPIC_CHARACTERS

_IN_RECORDS = (
    "header",
    "headers_separator",
    "format_text",
    "separator",
    "delimiter",
    "key_separator",
    "null_marker",
)
_NEVER_A_STRING = frozenset((*_IN_RECORDS, "pattern", "registry"))
"""Parameters that are not sent as strings of requests."""

Check = Callable[[str, str], None]
"""Called with the parameter's name on the command line and its text. Raises UsageFailed."""


def checks_of(parameters: Sequence[inspect.Parameter]) -> dict[str, tuple[str, Check]]:
    """Parameter -> (its name on the command line, its check)."""
    found: dict[str, tuple[str, Check]] = {}
    for parameter in parameters:
        for info in getattr(parameter.annotation, "__metadata__", ()):
            if parameter.name not in _NEVER_A_STRING:
                found[parameter.name] = _shown(parameter.name, info), _check_of(info)
    return found


def refuse_long(checks: dict[str, tuple[str, Check]], arguments: dict[str, Any]) -> None:
    """Raises UsageFailed for the first text that is too long."""
    for name, (shown, check) in checks.items():
        value = arguments.get(name)
        for text in value if isinstance(value, list | tuple) else [value]:
            if isinstance(text, str):
                check(shown, text)


def refuse_long_string(shown: str, text: str) -> None:
    """Raises UsageFailed for a text that is too long for the protocol."""
    if (length := len(text.encode(errors="surrogateescape"))) > MAX_STRING_BYTES:
        raise UsageFailed(f"{shown} has {length} bytes; Kafka's strings have at most {MAX_STRING_BYTES}")


def _check_of(info: Any) -> Check:
    if "=" in (info.metavar or ""):
        return _refuse_long_pair
    # a resource of an ACL (NAME) may be longer than a topic name
    if info.autocompletion is complete_topic and info.metavar != "NAME":
        return _refuse_long_topic
    return refuse_long_string


def _refuse_long_pair(shown: str, text: str) -> None:
    key, _, value = text.partition("=")
    refuse_long_string(f"a name in {shown}", key)
    refuse_long_string(f"a value in {shown}", value)


def _refuse_long_topic(shown: str, text: str) -> None:
    """Checks TOPIC, TOPIC:PARTITIONS and the like."""
    if (length := len(text.partition(":")[0])) > MAX_TOPIC_CHARACTERS:
        raise UsageFailed(f"{shown} has {length} characters; topic names have at most {MAX_TOPIC_CHARACTERS}")


def _shown(name: str, info: Any) -> str:
    if isinstance(info, typer.models.ArgumentInfo):
        shown = str(info.metavar or name.upper())
        return shown[1:-1] if shown.startswith("[") else shown  # an optional one
    first = [info.default] if isinstance(info.default, str) else []  # typer keeps the first name here
    long = [text for text in (*first, *(info.param_decls or ())) if text.startswith("--")]
    return long[0] if long else f"--{name.replace('_', '-')}"
