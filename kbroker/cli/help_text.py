"""The names of arguments in `--help`, on the page of commands and in errors."""

from typing import Any


def argument_name(argument: Any) -> str:
    """An argument as a usage line has it: TOPIC, [FILE], TOPIC..."""
    name = str(argument.metavar or argument.name.upper()) + ("..." if argument.nargs < 0 else "")
    return name if argument.required or name.startswith("[") else f"[{name}]"
