"""The text of `--help`: a command's docstring without the line breaks of its source.

Typer joins the lines of the first paragraph, but keeps the line breaks of the others.
"""

import inspect
from typing import Any

import typer


def flow(app: typer.Typer) -> None:
    """Join the lines of each paragraph in the help of every subcommand."""
    for command in (*app.registered_commands, app.registered_callback):
        if command is not None and command.callback is not None and not command.help:
            command.help = flowed(inspect.getdoc(command.callback) or "")
    for group in app.registered_groups:
        if group.typer_instance is not None:
            flow(group.typer_instance)


def flowed(text: str) -> str:
    """One line for each paragraph."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


def argument_name(argument: Any) -> str:
    """An argument as a usage line has it: TOPIC, [FILE], TOPIC..."""
    name = str(argument.metavar or argument.name.upper()) + ("..." if argument.nargs < 0 else "")
    return name if argument.required or name.startswith("[") else f"[{name}]"
