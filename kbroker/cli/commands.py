"""All commands of the `kbroker` program as one Typer application.

Command modules only import Typer. Client libraries, kernels and the broker are loaded by the
command that needs them, so that `--help` is quick.
"""

from pathlib import Path
from typing import Annotated

import typer

from kbroker import __version__
from kbroker.cli import (
    acls,
    client_metrics,
    clients,
    cluster,
    configs,
    consume,
    export,
    groups,
    log_dump,
    offsets,
    pages,
    produce,
    quotas,
    share_groups,
    status,
    systemd,
    tokens,
    tools,
    top,
    topics,
    transactions,
    users,
)
from kbroker.cli.backup import commands as backups
from kbroker.cli.exit_codes import ExitCode
from kbroker.cli.help_text import flow
from kbroker.cli.idle_options import OwnCommand
from kbroker.cli.mirror import commands as mirror
from kbroker.cli.options import examples
from loadtest.single_values import refuse_second_values

RECORDS = "Records"

app = typer.Typer(
    name="kbroker",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["--help", "-h"]},
    epilog=examples(
        "kbroker serve --override log.dirs=./data",
        "kbroker topics create orders --partitions 6",
        "echo 'a record' | kbroker produce orders",
        "kbroker consume orders --from-beginning",
        "kbroker groups describe billing",
    )
    + "\n\n[bold]Exit codes[/bold]\n"
    + "\n".join(f"  {code.value:<4}{code.meaning}" for code in ExitCode),
)


def _print_version(requested: bool) -> None:
    if requested:
        print(f"kbroker {__version__}")
        raise typer.Exit


@app.callback()
def kbroker(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """A message broker for one host that speaks the Apache Kafka protocol, and its tools.

    The commands for records and administration also work with Apache Kafka."""


@app.command(
    rich_help_panel="The broker",
    epilog=examples(
        "kbroker serve",
        "kbroker serve server.properties --override num.io.threads=2",
        "kbroker serve --override listeners=PLAINTEXT://127.0.0.1:19092 --override log.dirs=/var/lib/kbroker",
    ),
)
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


app.command("status", rich_help_panel="The broker", epilog=status.EXAMPLES)(status.status)
app.command("top", rich_help_panel="The broker", epilog=top.EXAMPLES)(top.top)
app.add_typer(clients.app, rich_help_panel="The broker")
app.command("systemd", rich_help_panel="The broker", epilog=systemd.EXAMPLES)(systemd.systemd)
app.command("produce", rich_help_panel=RECORDS, epilog=produce.EXAMPLES)(produce.produce)
app.command("consume", rich_help_panel=RECORDS, epilog=consume.EXAMPLES)(consume.consume)
app.command("offsets", rich_help_panel=RECORDS, epilog=offsets.EXAMPLES)(offsets.offsets)
ADMINISTRATION = (
    topics,
    groups,
    share_groups,
    configs,
    cluster,
    transactions,
    acls,
    users,
    tokens,
    quotas,
    client_metrics,
)
for group in ADMINISTRATION:
    app.add_typer(group.app, rich_help_panel="Administration")
for tool in (tools.tune, tools.loadtest, tools.judge):
    app.command(rich_help_panel=tools.PANEL, context_settings=tools.AS_IT_IS)(tool)
for files in (log_dump, export, backups):
    app.add_typer(files.app, rich_help_panel="Files")
app.command("backup", rich_help_panel="Files", epilog=backups.BACKUP_EXAMPLES)(backups.backup)
app.command("restore", rich_help_panel="Files", epilog=backups.RESTORE_EXAMPLES)(backups.restore)
app.command("docs", rich_help_panel=tools.PANEL, epilog=pages.EXAMPLES)(pages.docs)
app.command("move", rich_help_panel=tools.PANEL, epilog=mirror.MOVE_EXAMPLES)(mirror.move)
app.command("import", rich_help_panel=tools.PANEL, epilog=mirror.IMPORT_EXAMPLES)(mirror.import_)
flow(app)
refuse_second_values(app, OwnCommand)
