"""`kbroker top`: shows the overview of the console in a terminal, from the same API."""

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kbroker.cli.console_link import DEFAULT_URL, ConsoleLink, LoginFile
from kbroker.cli.failures import Unreachable, again_and_again
from kbroker.cli.health_checks import age
from kbroker.cli.options import examples
from kbroker.cli.output import printed
from kbroker.cli.sizes import size
from kbroker.config.counts import counted

if TYPE_CHECKING:
    from rich.console import RenderableType

BESIDE, GAP, MAX_TABLE = 80, 3, 60
MAX_INTERFACES = 4
EXAMPLES = examples("kbroker top", "kbroker top --url http://127.0.0.1:9404/", "kbroker top --once --json")


def top(
    url: Annotated[str, typer.Option(metavar="URL", help="URL of the broker's console.")] = DEFAULT_URL,
    interval: Annotated[
        float, typer.Option(min=0.5, max=60, metavar="SECONDS", help="Time between two updates.")
    ] = 1.0,
    command_config: LoginFile = None,
    once: Annotated[bool, typer.Option("--once", help="Print one sample and end.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print each sample as a line of JSON.")] = False,
) -> None:
    """Show throughput, latency by stage, lag, processes, disks, memory and network, once a second.
    Press Ctrl-C to stop.

    A broker that restarts meanwhile does not end the display, nor the lines of [bold]--json[/bold]:
    they continue once it answers. Without an answer to the first request the command ends with
    3."""
    with suppress(KeyboardInterrupt), ConsoleLink(url, command_config) as link:
        _show(link, interval, once, as_json)


def _show(link: ConsoleLink, interval: float, once: bool, as_json: bool) -> None:
    from rich.console import Console
    from rich.live import Live

    if as_json:
        for found in again_and_again(partial(overview, link), interval):
            print(json.dumps(found["sample"]), flush=True)
            if once:
                return
    terminal = Console()
    if once or not terminal.is_terminal or terminal.is_dumb_terminal:
        # a pipe, and a terminal that cannot be cleared, get one screen after the other
        for found in again_and_again(partial(overview, link), interval):
            terminal.print(screen(found, terminal.width))
            if once:
                return
            print(flush=True)
    with Live(screen(overview(link), terminal.width), auto_refresh=False, screen=True) as live:
        while True:
            time.sleep(interval)
            live.update(next_screen(link, terminal.width), refresh=True)


def next_screen(link: ConsoleLink, width: int) -> "RenderableType":
    """The screen, or the reason why there is none now: a broker that restarts is shown again once
    it answers."""
    from rich.text import Text

    try:
        return screen(overview(link), width)
    except Unreachable as error:
        return Text(f"{error.message}\n\nTrying again. Press Ctrl-C to stop.")


def overview(link: ConsoleLink) -> Any:
    """The answer of /api/overview. Raises Unreachable, CommandFailed."""
    return link.get_json("/api/overview", "sample")


def screen(found: Mapping[str, Any], width: int) -> "RenderableType":
    """The whole screen for one sample. width: columns of the terminal; from BESIDE on, the tables
    of the host are beside those of the clients, so that all fit into 24 lines. Below each other
    they have no titles, and fit into 40."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    sample = found["sample"]
    state = "ready" if sample["ready"] else "not ready"
    came = f"in {size(sample['in_bytes'])}/s, {sample['in_records']:,.0f} records/s"
    went = f"out {size(sample['out_bytes'])}/s, {sample['cold_share']:.1%} from disk"
    rates = f"{sample['requests']:,.0f} requests/s, {sample['errors']:,.0f} errors/s"
    holds = f"{counted(sample['partition_count'], 'partition')} of {counted(sample['topic_count'], 'topic')}"
    clients = f"{counted(sample['connections'], 'connection')}   lag {sample['lag']:,}"
    lines = (
        f"kbroker {found['version']}  {', '.join(found['bootstrap'])}  {state}",
        f"{came}   {went}   {rates}",
        f"{holds}   {clients}   {counted(sample['deaths'], 'restart')}",
        *(f"! {trouble}" for trouble in troubles(sample)),
    )
    beside = width >= BESIDE
    clients_tables, host_tables = (
        Group(*(_table(title if beside else None, headers, rows) for title, headers, rows in tables if rows))
        for tables in (_tables_of_clients(sample), _tables_of_the_host(sample))
    )
    if not beside:
        tables: RenderableType = Group(clients_tables, host_tables)
    else:
        tables = Table.grid(padding=(0, GAP))
        tables.add_column(width=min(MAX_TABLE, (width - GAP) * 11 // 20))
        tables.add_column(width=min(MAX_TABLE, (width - GAP) * 9 // 20))
        tables.add_row(clients_tables, host_tables)
    return Group(*(Text(printed(line), no_wrap=True, overflow="ellipsis") for line in lines), tables)


def troubles(sample: Mapping[str, Any]) -> list[str]:
    """The problems, a phrase each."""
    lost = [f"log dir {row['path']} is offline" for row in sample["log_dirs"] if not row["online"]]
    return [*lost, *sample["problems"], *sample["degraded"]]


Rows = list[tuple[str, ...]]
Tables = list[tuple[str, Sequence[str], Rows]]


def _tables_of_clients(sample: Mapping[str, Any]) -> Tables:
    stages: Rows = [
        (f"{api} {phase}", f"{times['p50_ms']:.2f}", f"{times['p99_ms']:.2f}", f"{times['count']:,}")
        for api in ("produce", "fetch")
        for phase, times in sample["stages"][api].items()
    ]
    topics: Rows = [
        (row["topic"], f"{size(row['in_bytes'])}/s", f"{size(row['out_bytes'])}/s")
        for row in sample["top_topics"]
        if row["in_bytes"] + row["out_bytes"] > 0
    ]
    groups: Rows = [(name, f"{lag:,.0f}") for name, lag in sample["group_lag"].items()]
    return [
        ("Stages of the last ten seconds", ("STAGE", "P50 MS", "P99 MS", "COUNT"), stages),
        ("Busiest topics", ("TOPIC", "IN", "OUT"), topics),
        ("Lag in records", ("GROUP", "LAG"), groups),
    ]


def _tables_of_the_host(sample: Mapping[str, Any]) -> Tables:
    disks: Rows = [
        (
            row["name"],
            f"{size(row['read_bytes'])}/s",
            f"{size(row['write_bytes'])}/s",
            f"{row['busy']:.0%}",
            *(() if row["used"] is None else (f"{row['used']:.0%}",)),
        )
        for row in sample["disks"]
    ]
    dirs: Rows = [
        (
            row["path"],
            size(row["free_bytes"]) if row["online"] else "offline",
            "-" if row["full_in_s"] is None else age(row["full_in_s"]) if row["full_in_s"] else "full",
        )
        for row in sample["log_dirs"]
    ]
    processes: Rows = [(row["name"], _cpu(row), size(row["memory_bytes"])) for row in sample["processes"]]
    return [
        ("Processes", ("PROCESS", "CPU", "MEMORY"), processes),
        ("Disks", ("DEVICE", "READ", "WRITE", "BUSY", "USED")[: len(disks[0]) if disks else 0], disks),
        ("Log dirs", ("PATH", "FREE", "FULL IN"), dirs),
        ("Memory", ("PAGE CACHE", "OF", "TO BE WRITTEN"), _memory(sample["memory"])),
        ("Network", ("NIC", "IN", "OUT", "USED"), _interfaces(sample["nics"])),
    ]


def _cpu(process: Mapping[str, float]) -> str:
    """CPU of a process as a percentage, with the share of polling, if it polls."""
    polling = process.get("polling", 0.0)  # an earlier version does not say
    return f"{process['cpu']:.0%}" + (f", {polling:.0%} polling" if polling else "")


def _memory(memory: Mapping[str, float]) -> Rows:
    """Dirty pages and those that are being written wait for the disk."""
    if "page_cache" not in memory:
        return []
    waiting = memory.get("dirty", 0) + memory.get("writeback", 0)
    return [(size(memory["page_cache"]), size(memory.get("total", 0)), size(waiting))]


def _interfaces(nics: Sequence[Mapping[str, Any]]) -> Rows:
    """The busiest; of those without traffic only the first one."""
    shown = [row for at, row in enumerate(nics) if at == 0 or row["in_bytes"] + row["out_bytes"] > 0]
    shown.sort(key=lambda row: -(row["in_bytes"] + row["out_bytes"]))
    return [
        (
            row["name"],
            f"{size(row['in_bytes'])}/s",
            f"{size(row['out_bytes'])}/s",
            f"{max(row['in_bytes'], row['out_bytes']) / row['speed_bytes']:.0%}"
            if row["speed_bytes"]
            else "-",
        )
        for row in shown[:MAX_INTERFACES]
    ]


def _table(title: str | None, headers: Sequence[str], rows: Rows) -> "RenderableType":
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, expand=True
    )
    for number, header in enumerate(headers):
        if number == 0:
            table.add_column(header, header_style="dim", no_wrap=True, overflow="ellipsis", ratio=1)
        else:
            table.add_column(header, header_style="dim", no_wrap=True, justify="right")
    for row in rows:
        table.add_row(*(Text(printed(cell)) for cell in row))  # a client's name is no markup
    return table
