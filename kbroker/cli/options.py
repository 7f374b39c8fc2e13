"""Shared options of commands, and the decorator that passes a connection to a command."""

import functools
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Concatenate, ParamSpec

import typer

from kbroker.cli import client_properties
from kbroker.cli.completion import complete_group, complete_topic
from kbroker.cli.connection import DEFAULT_BOOTSTRAP, Connection
from kbroker.cli.failures import UsageFailed, explain
from kbroker.cli.long_names import checks_of, refuse_long
from kbroker.cli.output import printed
from loadtest.examples import examples as examples

P = ParamSpec("P")
Command = Callable[..., None]

PANEL = "Connection"

Scopes = Annotated[
    list[str],
    typer.Argument(metavar="TOPIC[:PARTITIONS]", show_default=False, autocompletion=complete_topic),
]
ScopesOrAll = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TOPIC[:PARTITIONS]",
        help="Default: all topics.",
        show_default=False,
        autocompletion=complete_topic,
    ),
]

Bootstrap = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        "-b",
        envvar="KBROKER_BOOTSTRAP",
        metavar="HOST:PORT[,...]",
        show_default=DEFAULT_BOOTSTRAP,
        help="Brokers to connect to first.",
        rich_help_panel=PANEL,
    ),
]
CommandConfig = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="File with client settings (security and others), with Java's or librdkafka's names.",
        rich_help_panel=PANEL,
    ),
]
TimeoutS = Annotated[
    float,
    typer.Option(
        "--timeout",
        min=0.1,
        max=3600,
        metavar="SECONDS",
        help="Maximum time to wait for an answer.",
        rich_help_panel=PANEL,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
Yes = Annotated[
    bool,
    typer.Option("--yes", "-y", help="Do not ask for confirmation; required if stdin is not a terminal."),
]
DryRun = Annotated[bool, typer.Option("--validate-only", help="Only let the broker check the request.")]
Topics = Annotated[
    list[str], typer.Argument(metavar="TOPIC", show_default=False, autocompletion=complete_topic)
]
GroupId = Annotated[str, typer.Argument(metavar="GROUP", show_default=False, autocompletion=complete_group)]
GroupIds = Annotated[
    list[str], typer.Argument(metavar="GROUP", show_default=False, autocompletion=complete_group)
]

_CONNECTION = [
    inspect.Parameter("bootstrap", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Bootstrap),
    inspect.Parameter(
        "command_config", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=CommandConfig
    ),
    inspect.Parameter("timeout_s", inspect.Parameter.KEYWORD_ONLY, default=15.0, annotation=TimeoutS),
]


def connected(command: Callable[Concatenate[Connection, P], None]) -> Command:
    """Makes a command with connection options from a function whose first parameter is a
    Connection."""
    own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
    parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own] + _CONNECTION
    named = {p.name: shown for p in own if (shown := _shown_name(p)) is not None}
    bounded = checks_of(own)

    @functools.wraps(command)
    def run(
        *, bootstrap: str | None, command_config: Path | None, timeout_s: float, **arguments: Any
    ) -> None:
        if bootstrap == "":
            raise UsageFailed("--bootstrap is empty; is a shell variable not set?")
        _refuse_empty(named, arguments)
        refuse_long(bounded, arguments)
        settings = client_properties.read(command_config) if command_config else {}
        address = bootstrap or settings.get("bootstrap.servers") or DEFAULT_BOOTSTRAP
        connection = Connection(address, settings, timeout_s, command_config)
        try:
            command(connection, **arguments)  # type: ignore[call-arg]
        except BrokenPipeError:  # of the output: no failure of the connection
            raise
        except Exception as error:
            failure = explain(error)
            if failure is None or failure.error is not None or isinstance(failure, UsageFailed):
                raise
            connection.add_reason(failure)
            if failure is error:
                raise
            raise failure from error

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run


def _shown_name(parameter: inspect.Parameter) -> str | None:
    """The name on the command line of a parameter that must not be empty; None for others."""
    for info in getattr(parameter.annotation, "__metadata__", ()):
        if isinstance(info, typer.models.ArgumentInfo):
            return str(info.metavar or parameter.name.upper())
        if isinstance(info, typer.models.OptionInfo) and info.autocompletion is not None:
            long = [decl for decl in info.param_decls or () if decl.startswith("--")]
            return long[0] if long else f"--{parameter.name}"
    return None


def _refuse_empty(named: dict[str, str], arguments: dict[str, Any]) -> None:
    """Refuse an empty name: it usually comes from an unset shell variable, and clients would treat
    it as none or all. Raises UsageFailed."""
    for name, shown in named.items():
        value = arguments.get(name)
        if value == "" or (isinstance(value, list | tuple) and "" in value):
            raise UsageFailed(f"{shown} is empty; is a shell variable not set?")


def confirm(question: str, yes: bool) -> None:
    """Ask for confirmation on a terminal; without one --yes is required. Raises UsageFailed,
    typer.Abort."""
    import sys

    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageFailed(f"{question} Give --yes: there is no terminal to ask for confirmation")
    typer.confirm(printed(question), abort=True, err=True)


def name_matcher(pattern: str | None) -> Callable[[str], object]:
    """A function that checks whether the regular expression matches a whole name; without one every
    name matches. Raises UsageFailed."""
    try:
        return re.compile(pattern or ".*").fullmatch
    except (re.error, OverflowError, RecursionError) as error:
        shown = pattern if pattern is None or len(pattern) <= 80 else f"{pattern[:80]}..."
        raise UsageFailed(f"{shown!r} is not a regular expression: {error}") from error
