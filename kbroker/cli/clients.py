"""`kbroker clients`: lists connected clients with their traffic, from the API of the console."""

from typing import Annotated, Any

import typer

from kbroker.cli.console_link import DEFAULT_URL, ConsoleLink, LoginFile
from kbroker.cli.failures import UsageFailed
from kbroker.cli.options import AsJson, examples, name_matcher
from kbroker.cli.output import print_json, print_table, say
from kbroker.config.counts import counted

PATH = "/api/clients?limit=1000"
"""All clients that the broker lists, on one page."""

app = typer.Typer(
    name="clients",
    no_args_is_help=True,
    help="List the connected clients: address, software, principal, traffic.",
)


@app.command(
    "list",
    epilog=examples(
        "kbroker clients list",
        "kbroker clients list 'billing.*' --json",
        "kbroker clients list --principal User:anna --address 10.0.0.7",
        "# the software of all clients, counted",
        "kbroker clients list --json | jq -r '.[] | .software_name' | sort | uniq -c",
    ),
)
def list_clients(
    pattern: Annotated[
        str | None,
        typer.Argument(help="Regular expression that must match the whole client id.", show_default=False),
    ] = None,
    address: Annotated[
        list[str] | None,
        typer.Option("--address", metavar="ADDRESS", help="Only clients at this address; repeatable."),
    ] = None,
    principal: Annotated[
        list[str] | None,
        typer.Option("--principal", metavar="User:NAME", help="Only this principal; repeatable."),
    ] = None,
    listener: Annotated[
        list[str] | None,
        typer.Option("--listener", metavar="NAME", help="Only clients of this listener; repeatable."),
    ] = None,
    url: Annotated[str, typer.Option(metavar="URL", help="URL of the broker's console.")] = DEFAULT_URL,
    command_config: LoginFile = None,
    json: AsJson = False,
) -> None:
    """List connected clients, those with the most bytes per second first. Connections with the same
    address, client id, software, principal and listener are one client.

    The broker lists the 500 clients with the most traffic; a line on stderr counts the others."""
    matches = name_matcher(pattern)
    for name in principal or ():
        if not all(name.partition(":")):
            raise UsageFailed(f"--principal {name}: expected User:NAME")
    with ConsoleLink(url, command_config) as link:
        found = link.get_json(PATH, "clients")
        rows = [
            row
            for row in found["clients"]
            if matches(row["client_id"])
            and (not address or row["address"] in address)
            and (not principal or row["principal"] in principal)
            and (not listener or row["listener"] in listener)
        ]
        rows.sort(key=lambda row: row["in_bytes_s"] + row["out_bytes_s"], reverse=True)
        if json:
            print_json(rows)
        else:
            _print(rows)
        if found["left_out"]:
            others = counted(found["left_out"], "client")
            say(f"not listed: {others} with {counted(found['left_out_connections'], 'connection')}")


def _print(rows: list[dict[str, Any]]) -> None:
    headers = (
        "CLIENT-ID", "ADDRESS", "SOFTWARE", "PRINCIPAL", "LISTENER", "CONNECTIONS", "IN BYTES/S", "OUT BYTES/S",
    )  # fmt: skip
    print_table(headers, [_cells(row) for row in rows])


def _cells(row: dict[str, Any]) -> tuple[object, ...]:
    software = " ".join(filter(None, (row["software_name"], row["software_version"])))
    return (
        row["client_id"] or None,
        row["address"],
        software or None,
        row["principal"],
        row["listener"],
        row["connections"],
        row["in_bytes_s"],
        row["out_bytes_s"],
    )
