"""The commands of the `kbroker` program, and its Typer application.

The module of a command is imported when it runs, and all of them for `--help`. They import Typer
and what their options need. Client libraries, kernels and the broker are loaded by the command that
needs them.
"""

import os
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from msgspec import Struct

from kbroker import __version__
from kbroker.cli.completion import repair_shells
from kbroker.cli.exit_codes import ExitCode
from kbroker.cli.idle_options import OwnCommand
from kbroker.cli.options import examples
from loadtest.flowing import flow
from loadtest.single_values import refuse_second_values

BROKER, RECORDS, ADMINISTRATION, FILES, TOOLS = "The broker", "Records", "Administration", "Files", "Tools"
VERSION = "--version"
COMPLETION_OPTIONS = ("--install-completion", "--show-completion")
COMPLETION = "_KBROKER_COMPLETE"
"""Environment variable with which a shell asks for words; they may be names of commands."""
AS_IT_IS: dict[str, Any] = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


class Entry(Struct, frozen=True):
    """One command, or several behind one name.

    panel: of the help. module: in kbroker.cli. function: of one command; "": the module's `app` of
    several. examples: the name of its examples in the module. has_own_parser: arguments are for
    another program."""

    panel: str
    module: str
    function: str = ""
    examples: str = ""
    has_own_parser: bool = False

    def add_to(self, app: typer.Typer, name: str) -> None:
        module = import_module(f"kbroker.cli.{self.module}")
        if not self.function:
            app.add_typer(module.app, rich_help_panel=self.panel)
            return
        app.command(
            name,
            rich_help_panel=self.panel,
            epilog=getattr(module, self.examples) if self.examples else None,
            context_settings=AS_IT_IS if self.has_own_parser else None,
        )(getattr(module, self.function))


ENTRIES: Final[Mapping[str, Entry]] = {
    "status": Entry(BROKER, "status", "status", "EXAMPLES"),
    "top": Entry(BROKER, "top", "top", "EXAMPLES"),
    "clients": Entry(BROKER, "clients"),
    "systemd": Entry(BROKER, "systemd", "systemd", "EXAMPLES"),
    "produce": Entry(RECORDS, "produce", "produce", "EXAMPLES"),
    "consume": Entry(RECORDS, "consume", "consume", "EXAMPLES"),
    "offsets": Entry(RECORDS, "offsets", "offsets", "EXAMPLES"),
    "topics": Entry(ADMINISTRATION, "topics"),
    "groups": Entry(ADMINISTRATION, "groups"),
    "share-groups": Entry(ADMINISTRATION, "share_groups"),
    "configs": Entry(ADMINISTRATION, "configs"),
    "cluster": Entry(ADMINISTRATION, "cluster"),
    "transactions": Entry(ADMINISTRATION, "transactions"),
    "acls": Entry(ADMINISTRATION, "acls"),
    "users": Entry(ADMINISTRATION, "users"),
    "tokens": Entry(ADMINISTRATION, "tokens"),
    "quotas": Entry(ADMINISTRATION, "quotas"),
    "client-metrics": Entry(ADMINISTRATION, "client_metrics"),
    "tune": Entry(TOOLS, "tools", "tune", has_own_parser=True),
    "loadtest": Entry(TOOLS, "tools", "loadtest", has_own_parser=True),
    "judge": Entry(TOOLS, "tools", "judge", has_own_parser=True),
    "log": Entry(FILES, "log_dump"),
    "export": Entry(FILES, "export"),
    "backups": Entry(FILES, "backup.commands"),
    "backup": Entry(FILES, "backup.commands", "backup", "BACKUP_EXAMPLES"),
    "restore": Entry(FILES, "backup.commands", "restore", "RESTORE_EXAMPLES"),
    "docs": Entry(TOOLS, "pages", "docs", "EXAMPLES"),
    "move": Entry(TOOLS, "mirror.commands", "move", "MOVE_EXAMPLES"),
    "import": Entry(TOOLS, "mirror.commands", "import_", "IMPORT_EXAMPLES"),
}
"""Commands by name, in the order of the help; `serve` is below."""


def application(first: str = "") -> typer.Typer:
    """The program. first: the first word of a command line; if it is a command, the others are left
    out."""
    if first in COMPLETION_OPTIONS or COMPLETION in os.environ:
        repair_shells()
    is_alone = first in (*ENTRIES, "serve", VERSION) and COMPLETION not in os.environ
    app = typer.Typer(
        name="kbroker",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["--help", "-h"]},
        epilog=EPILOG,
    )
    app.callback()(kbroker)
    app.command(rich_help_panel=BROKER, epilog=SERVE_EXAMPLES)(serve)
    for name, entry in ENTRIES.items():
        if name == first or not is_alone:
            entry.add_to(app, name)
    flow(app)
    refuse_second_values(app, OwnCommand)
    return app


EPILOG = (
    examples(
        "kbroker serve --override log.dirs=./data",
        "kbroker topics create orders --partitions 6",
        "echo 'a record' | kbroker produce orders",
        "kbroker consume orders --from-beginning",
        "kbroker groups describe billing",
    )
    + "\n\n[bold]Exit codes[/bold]\n"
    + "\n".join(f"  {code.value:<4}{code.meaning}" for code in ExitCode)
)
SERVE_EXAMPLES = examples(
    "kbroker serve",
    "kbroker serve server.properties --override num.io.threads=2",
    "kbroker serve --override listeners=PLAINTEXT://127.0.0.1:19092 --override log.dirs=/var/lib/kbroker",
)


def _print_version(requested: bool) -> None:
    if requested:
        print(f"kbroker {__version__}")
        raise typer.Exit


def kbroker(
    version: Annotated[
        bool, typer.Option(VERSION, help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """A message broker for one host that speaks the Apache Kafka protocol, and its tools.

    The commands for records and administration also work with Apache Kafka."""


def serve(
    properties: Annotated[
        Path | None,
        typer.Argument(metavar="[SERVER.PROPERTIES]", help="Settings in Kafka's names.", show_default=False),
    ] = None,
    override: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="A setting that overrides the file; repeatable."),
    ] = None,
    environment: Annotated[
        bool,
        typer.Option(
            "--environment",
            help="Also take settings from environment variables, as Apache Kafka's images do: KAFKA_LOG_DIRS is "
            "log.dirs.",
        ),
    ] = False,
) -> None:
    """Run the broker in the foreground until Ctrl-C or SIGTERM; logs go to stderr.

    All settings: `kbroker docs config`."""
    from kbroker.cli.serve import serve as run_broker

    raise typer.Exit(run_broker(properties, override or [], environment))
