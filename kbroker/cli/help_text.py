"""What `--help` says of a command: its docstring, whose line breaks are those of the source.

Typer flows a first paragraph and keeps the line breaks of the others, which then stand in
mid-sentence.
"""

import inspect

import typer


def flow(app: typer.Typer) -> None:
    """Let the terminal break the lines of every command below."""
    for command in (*app.registered_commands, app.registered_callback):
        if command is not None and command.callback is not None and not command.help:
            command.help = flowed(inspect.getdoc(command.callback) or "")
    for group in app.registered_groups:
        if group.typer_instance is not None:
            flow(group.typer_instance)


def flowed(text: str) -> str:
    """One line for each paragraph."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))
