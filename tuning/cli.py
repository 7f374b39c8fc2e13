"""`kbroker tune`: checks a host, proposes settings, prints a script for its administrator, measures
the host, sizes workloads, verifies the advice."""

import json
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from kbroker.config.setting import ConfigError
from loadtest.examples import examples
from loadtest.flowing import flow
from loadtest.single_values import refuse_second_values
from tuning import render
from tuning.bench.run import NoRoom
from tuning.bench.run import run as run_bench
from tuning.broker.rules import choices, left_out
from tuning.broker.rules import propose as proposals_of
from tuning.check import check as all_findings
from tuning.check import exit_code
from tuning.coefficients import DEFAULT_FILE, WrongFile
from tuning.gather import Sources, gather
from tuning.live import NoMetrics
from tuning.option_values import (
    amount_of,
    bounded,
    check_writable,
    percent_of,
    read,
    refuse_empty,
    speed_of,
    workload_of_options,
)
from tuning.options import (
    OF_HOST,
    Batch,
    Connections,
    Consumers,
    Copies,
    Dirs,
    Durable,
    File,
    Json,
    Lag,
    Lagging,
    Metrics,
    Override,
    Partitions,
    Properties,
    Rate,
    Remote,
    Retention,
    Rtt,
    Tls,
)
from tuning.quantity import WrongQuantity, parse_bytes
from tuning.script import apply_script, undo_script
from tuning.situation import Situation
from tuning.sizing.answer import answer
from tuning.sizing.growth import growth as growth_of
from tuning.sizing.growth_text import growth_text
from tuning.sizing.page import page as size_page
from tuning.sizing.supply import supply_of
from tuning.verify.broker import TurnFailed
from tuning.verify.change import WrongTry
from tuning.verify.command import Files, Request
from tuning.verify.command import verify as prove
from tuning.verify.host_change import LeftBehind
from tuning.verify.turn import NoRoom as NoRoomForTurns

DONE, SERIOUS, WRONG_USE, NO_BROKER, FAILED = 0, 1, 2, 69, 74
EXIT_CODES = {
    DONE: "done; of `check`: nothing is serious; of `size`: it fits",
    SERIOUS: "`check` found something serious; `size`: it does not fit",
    WRONG_USE: "the command line or the settings are wrong",
    NO_BROKER: "no metrics at --metrics",
    FAILED: "a file or a measurement failed",
    128 + signal.SIGINT: "stopped by Ctrl-C; `verify` by another signal: 128 and its number",
}

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help=__doc__,
    context_settings={"help_option_names": ["--help", "-h"]},
)


def situation_of(given: dict[str, object]) -> tuple[Situation, tuple[str, ...]]:
    """The situation from the common options; ends the program with a line about an invalid one."""
    try:
        refuse_empty(given["dirs"])  # type: ignore[arg-type]
        sources = Sources(
            given["config"],  # type: ignore[arg-type]
            given["override"] or (),  # type: ignore[arg-type]
            given["dirs"] or (),  # type: ignore[arg-type]
            str(given["metrics"]),
            given.get("watch_s", 0.0),  # type: ignore[arg-type]
            given["coefficients"],  # type: ignore[arg-type]
        )
        return gather(sources, workload_of_options(given))
    except NoMetrics as error:
        raise _end(NO_BROKER, error) from error
    except (ConfigError, WrongFile, WrongQuantity) as error:
        raise _end(WRONG_USE, error) from error


def _end(code: int, error: object) -> typer.Exit:
    typer.echo(f"kbroker tune: {error}", err=True)
    return typer.Exit(code)


@app.command(
    epilog=examples(
        "kbroker tune check",
        "kbroker tune check --config server.properties --metrics 127.0.0.1:9404",
    )
)
def check(
    config: Properties = None, override: Override = None, dirs: Dirs = None, metrics: Metrics = "",
    coefficients: File = None, rate: Rate = None, retention: Retention = None, partitions: Partitions = None,
    consumers: Consumers = None, lagging: Lagging = None, lag: Lag = None, copies: Copies = None,
    connections: Connections = None, batch: Batch = None, remote: Remote = None, rtt: Rtt = None,
    durable: Durable = None, tls: Tls = None, json_: Json = False,
    everything: Annotated[bool, typer.Option("--all", help="Also show findings without a problem.")] = False,
    watch: Annotated[
        float, typer.Option(metavar="SECONDS", help="Time between two readings of --metrics; 0: one reading.")
    ] = 5,
) -> None:  # fmt: skip
    """Check this host, the settings and a running broker. Ends with 1 if a finding is serious."""
    try:
        watch_s = bounded("watch", watch)
    except WrongQuantity as error:
        raise _end(WRONG_USE, error) from error
    situation, lines = situation_of(dict(locals()) | {"watch_s": watch_s})
    findings = all_findings(situation)
    if json_:
        _print_json(
            {"workload": asdict(situation.workload), "findings": [each.as_json() for each in findings]}
        )
    else:
        typer.echo("workload: " + ", ".join(lines) + "\n")
        typer.echo(render.findings_text(findings, everything))
    raise typer.Exit(exit_code(findings))


@app.command(
    epilog=examples(
        "kbroker tune propose --config server.properties --rate 2MB/s --retention 1d > more.properties",
    )
)
def propose(
    config: Properties = None, override: Override = None, dirs: Dirs = None, metrics: Metrics = "",
    coefficients: File = None, rate: Rate = None, retention: Retention = None, partitions: Partitions = None,
    consumers: Consumers = None, lagging: Lagging = None, lag: Lag = None, copies: Copies = None,
    connections: Connections = None, batch: Batch = None, remote: Remote = None, rtt: Rtt = None,
    durable: Durable = None, tls: Tls = None, json_: Json = False,
) -> None:  # fmt: skip
    """Print lines for the broker's properties file, each with its reason."""
    situation, _ = situation_of(dict(locals()))
    proposals = proposals_of(situation)
    if json_:
        _print_json([each.finding(situation.config).as_json() for each in proposals])
    else:
        typer.echo(render.properties_text(proposals, [*left_out(situation), *choices(situation)]), nl=False)


@app.command(
    epilog=examples(
        "kbroker tune script --config server.properties > repairs.sh",
        "kbroker tune script --config server.properties --undo > undo.sh",
    )
)
def script(
    config: Properties = None, override: Override = None, dirs: Dirs = None, metrics: Metrics = "",
    coefficients: File = None, rate: Rate = None, retention: Retention = None, partitions: Partitions = None,
    consumers: Consumers = None, lagging: Lagging = None, lag: Lag = None, copies: Copies = None,
    connections: Connections = None, batch: Batch = None, remote: Remote = None, rtt: Rtt = None,
    durable: Durable = None, tls: Tls = None,
    undo: Annotated[bool, typer.Option("--undo", help="Print the script that reverts the changes.")] = False,
) -> None:  # fmt: skip
    """Print a shell script with the changes to this host, for its administrator. Changes nothing
    itself."""
    findings = all_findings(situation_of(dict(locals()))[0])
    typer.echo(undo_script(findings) if undo else apply_script(findings), nl=False)


@app.command(
    epilog=examples(
        "kbroker tune size --rate 200MB/s --retention 3d --partitions 500 --consumers 3",
        "# another host, and the months until a resource ends",
        "kbroker tune size --rate 20MB/s --disk 4TB --memory 64GiB --nic 10Gbit/s --growth 5%",
    )
)
def size(
    config: Properties = None, override: Override = None, dirs: Dirs = None, metrics: Metrics = "",
    coefficients: File = None, rate: Rate = None, retention: Retention = None, partitions: Partitions = None,
    consumers: Consumers = None, lagging: Lagging = None, lag: Lag = None, copies: Copies = None,
    connections: Connections = None, batch: Batch = None, remote: Remote = None, rtt: Rtt = None,
    durable: Durable = None, tls: Tls = None, json_: Json = False,
    disk: Annotated[str | None, typer.Option(metavar="BYTES", help="Disk size: 4TB.", show_default=OF_HOST)] = None,
    memory: Annotated[str | None, typer.Option(metavar="BYTES", help="Memory: 64GiB.", show_default=OF_HOST)] = None,
    nic: Annotated[
        str | None, typer.Option(metavar="BITS/S", help="Network speed: 10Gbit/s.", show_default=OF_HOST)
    ] = None,
    cores: Annotated[float | None, typer.Option(help="Number of cores.", show_default=OF_HOST)] = None,
    growth: Annotated[
        str | None,
        typer.Option(
            metavar="PERCENT", help="Growth of the rate each month, 5%: show the months until a resource ends."
        ),
    ] = None,
    html: Annotated[Path | None, typer.Option(help="File for the answer as HTML, with a plot of --growth.")] = None,
) -> None:  # fmt: skip
    """Check whether a workload fits, and show the first limit and its rate. Ends with 1 if it does
    not fit."""
    situation, lines = situation_of(dict(locals()))
    try:
        percent = percent_of("growth", growth)
        check_writable(html)
        supply = supply_of(
            situation,
            amount_of("disk", disk),
            amount_of("memory", memory),
            speed_of("nic", nic),
            bounded("cores", cores),
        )
    except WrongQuantity as error:
        raise _end(WRONG_USE, error) from error
    except OSError as error:
        raise _end(FAILED, _of_file(error)) from error
    found = answer(situation, supply)
    months = None if percent is None else growth_of(situation, supply, percent)
    if json_:
        more = {} if months is None else {"growth": months.as_json()}
        _print_json({"workload": asdict(situation.workload), "fits": found.fits, **asdict(found), **more})
    else:
        typer.echo("workload: " + ", ".join(lines) + "\n")
        typer.echo(render.answer_text(found) + ("" if months is None else "\n\n" + growth_text(months)))
    if html is not None:
        _write(html, size_page(lines, found, months))
    raise typer.Exit(DONE if found.fits else SERIOUS)


@app.command(
    epilog=examples(
        "kbroker tune bench --dir /var/lib/kbroker --out host.json",
    )
)
def bench(
    folder: Annotated[
        Path, typer.Option("--dir", metavar="FOLDER", help="A folder on the disk of the logs.")
    ],
    out: Annotated[Path, typer.Option(help="File for the results.")] = DEFAULT_FILE,
    seconds: Annotated[float, typer.Option(metavar="SECONDS", help="Approximate duration.")] = 20,
    max_bytes: Annotated[
        str | None,
        typer.Option(
            "--max-bytes",
            metavar="BYTES",
            help="Maximum size of the test file, which is removed at the end; from 1MiB to a tenth of what is free.",
            show_default="4GiB, or a tenth of what is free if that is less",
        ),
    ] = None,
    most_bytes: Annotated[
        str | None,
        typer.Option("--most-bytes", hidden=True, metavar="BYTES", help="The former name of --max-bytes."),
    ] = None,
) -> None:
    """Measure disk, loopback, memory and TLS of this host, for the other commands. Stop other
    work first."""
    try:
        bounded("seconds", seconds)
        if max_bytes is not None and most_bytes is not None:
            raise WrongQuantity("--most-bytes is the former name of --max-bytes: give one")
        size = most_bytes if max_bytes is None else max_bytes
        check_writable(out)
        measured = run_bench(
            folder,
            seconds,
            None if size is None else read("max-bytes", parse_bytes, size),
            lambda line: typer.echo(line, err=True),
        )
        measured.save(out)
    except WrongQuantity as error:
        raise _end(WRONG_USE, error) from error
    except (NoRoom, OSError) as error:
        raise _end(FAILED, _of_file(error)) from error
    typer.echo(render.coefficients_text(measured))
    typer.echo(f"written to {out}")


@app.command(
    epilog=examples(
        "# show the plan",
        "kbroker tune verify --config server.properties --minutes 5 --dry-run",
        "kbroker tune verify --config server.properties --try num.network.threads=2 --yes",
    )
)
def verify(
    config: Properties = None, override: Override = None, dirs: Dirs = None, metrics: Metrics = "",
    coefficients: File = None, rate: Rate = None, retention: Retention = None, partitions: Partitions = None,
    consumers: Consumers = None, lagging: Lagging = None, lag: Lag = None, copies: Copies = None,
    connections: Connections = None, batch: Batch = None, remote: Remote = None, rtt: Rtt = None,
    durable: Durable = None, tls: Tls = None,
    tries: Annotated[
        list[str] | None,
        typer.Option(
            "--try",
            metavar="KEY=VALUE",
            help="A setting to try; repeatable.",
            show_default="the proposals of check",
        ),
    ] = None,
    minutes: Annotated[float, typer.Option(metavar="MINUTES", help="Maximum duration.")] = 10,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Change values of this host without confirmation.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the plan.")] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="File for the report as JSON.")] = None,
    html: Annotated[Path | None, typer.Option(help="File for the report as HTML, with plots.")] = None,
    out: Annotated[Path | None, typer.Option(help="File for the broker settings that helped.")] = None,
) -> None:  # fmt: skip
    """Run a broker with and without each change, in turns, and keep changes that help beyond the
    spread. Stop other work first."""
    situation, _ = situation_of(dict(locals()))
    try:
        seconds = (bounded("minutes", minutes) or 0.0) * 60
        for file in (json_file, html, out):
            check_writable(file)
        request = Request(seconds, tries or (), dry_run, _asking(yes), Files(json_file, html, out))
        code = prove(situation, request, lambda line: typer.echo(line, err=True), typer.echo)
    except (WrongQuantity, WrongTry) as error:
        raise _end(WRONG_USE, error) from error
    except (NoRoomForTurns, LeftBehind, TurnFailed, OSError) as error:
        raise _end(FAILED, _of_file(error)) from error
    raise typer.Exit(code)


def _write(file: Path, text: str) -> None:
    """Writes a result; ends the program with a line where it cannot."""
    try:
        file.write_text(text)
    except OSError as error:
        raise _end(FAILED, f"{file}: {error.strerror}") from error


def _of_file(error: Exception) -> object:
    """A failed system call as `FILE: reason`, other errors as they are."""
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}"
    return error


def _asking(yes: bool) -> Callable[[str], bool] | None:
    """Ask a question on the terminal; None without one."""
    if yes:
        return lambda _: True
    return typer.confirm if sys.stdin.isatty() else None


def _print_json(value: object) -> None:
    typer.echo(json.dumps(_plain(value), indent=2))


def _plain(value: object) -> object:
    """JSON has no infinity: it becomes null."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and value in (float("inf"), float("-inf")) else value


flow(app)
refuse_second_values(app)
