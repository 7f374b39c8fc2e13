"""The text of `--help`: a command's docstring without the line breaks of its source.

Typer joins the lines of the first paragraph only on the page of the command itself, and keeps the
line breaks of the others.
"""

import inspect

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
