"""`kbroker backup`, `kbroker restore` and `kbroker backups`: back up a running broker and restore
it."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from kbroker.cli.connection import Connection
from kbroker.cli.exit_codes import ExitCode
from kbroker.cli.failures import CommandFailed, UsageFailed
from kbroker.cli.options import AsJson, connected, examples
from kbroker.cli.output import print_json, print_table, say
from kbroker.cli.points_in_time import format_time, parse_time_ms
from kbroker.cli.progress import progress
from kbroker.cli.sizes import counted

app = typer.Typer(name="backups", no_args_is_help=True, help="List, verify and prune backups.")
BACKUP_EXAMPLES = examples(
    "kbroker backup /backup/kbroker",
    "AWS_ENDPOINT_URL=https://minio:9000 kbroker backup s3://backups/kbroker",
    "# every hour, keep the last 48",
    "0 * * * *  kbroker backup /backup/kbroker && kbroker backups prune /backup/kbroker --keep 48",
)
RESTORE_EXAMPLES = examples(
    "kbroker restore /backup/kbroker /var/lib/kbroker",
    "kbroker restore /backup/kbroker /tmp/look --to 2026-01-31T12:00:00+01:00 --topic orders",
)
Repository = Annotated[str, typer.Argument(metavar="BACKUPS", show_default=False)]


@connected
def backup(
    broker: Connection,
    dest: Annotated[str, typer.Argument(metavar="DEST", show_default=False)],
    link: Annotated[
        bool,
        typer.Option(
            "--link",
            help="Make hard links to closed segments; DEST must be on the file system of the log dirs.",
        ),
    ] = False,
    json: AsJson = False,
) -> None:
    """Back up a running broker: every record, offset and setting as of one point in time, to a
    folder or to s3://BUCKET/PREFIX.

    Run it on the broker's host, as its user. Only new data since the last backup is copied; an
    interrupted backup is continued. See docs/backup.md."""
    from kbroker.cli.backup.place import at

    repository = at(dest, link=link)
    # after that: these import numba, and a wrong DEST is refused at once
    from kbroker.cli.backup.cut import take_cut
    from kbroker.cli.backup.taking import take

    os.nice(10)  # the broker comes first
    log_dirs, folders = _folders(broker)
    with progress("backup", None, "bytes") as advance:
        point = take(repository, take_cut(broker), log_dirs, folders, advance)
        place = repository.add(point)
    result = _row(point)
    if json:
        print_json(result | {"manifest": place})
    else:
        say(
            f"{counted(result['partitions'], 'partition')}, {counted(result['bytes'], 'byte')} "
            f"as of {result['time']} are in {place}"
        )


def _folders(broker: Connection) -> tuple[list[str], dict[tuple[str, int], str]]:
    """Log dirs of the broker, and the folder of each partition's leader."""
    metadata = broker.admin().list_topics(timeout=broker.timeout_s)
    leaders = {(t.topic, p.id): p.leader for t in metadata.topics.values() for p in t.partitions.values()}
    with broker.kafka_python_admin() as admin:
        answers: list[dict[str, Any]] = admin.describe_log_dirs()
    log_dirs: list[str] = []
    folders: dict[tuple[str, int], str] = {}
    for answer in answers:
        for entry in answer["log_dirs"]:
            if entry["error_code"]:
                raise CommandFailed(f"log dir {entry['log_dir']} is offline")
            log_dirs.append(entry["log_dir"])
            for topic in entry["topics"]:
                for one in topic["partitions"]:
                    key = topic["name"], one["partition_index"]
                    if not one["is_future_key"] and leaders.get(key) == answer["broker"]:
                        folders[key] = f"{entry['log_dir']}/{key[0]}-{key[1]}"
    if missing := sorted(set(leaders) - set(folders)):
        raise CommandFailed(f"{missing[0][0]}-{missing[0][1]} is offline or being created")
    return sorted(set(log_dirs)), folders


def restore(
    backups: Repository,
    target: Annotated[Path, typer.Argument(metavar="DIR", show_default=False)],
    to: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Restore the last backup at or before this time instead of the newest."
        ),
    ] = None,
    topic: Annotated[
        list[str] | None, typer.Option(metavar="TOPIC", help="Restore only this topic; repeatable.")
    ] = None,
) -> None:
    """Turn a backup into a log directory, on which kbroker starts with `log.dirs=DIR`.

    Every file is checked by its checksum. Committed offsets are restored whichever topics you
    choose."""
    from kbroker.cli.backup.restoring import restore as run

    repository, points = _open(backups)
    if to is not None:
        limit = parse_time_ms(to, _now_ms())
        points = [point for point in points if point.time_ms <= limit]
    if not points:
        raise UsageFailed(f"no backup in {backups}" + ("" if to is None else f" at or before {to}"))
    point = points[-1]
    with progress("restore", None, "bytes") as advance:
        restored = run(repository, point, Path(os.path.abspath(target)), topic or [], advance)  # noqa: PTH100
    say(f"{counted(len(restored), 'partition')} as of {format_time(point.time_ms)} in {target}")


@app.callback()
def backups() -> None:
    """List, verify and prune backups."""


@app.command(
    "list",
    epilog=examples("kbroker backups list /backup/kbroker", "kbroker backups list /backup/kbroker --json"),
)
def list_points(backups: Repository, json: AsJson = False) -> None:
    """List the points in time that can be restored."""
    _, points = _open(backups)
    rows = [_row(point) for point in points]
    if json:
        print_json(rows)
    else:
        print_table(("TIME", "PARTITIONS", "BYTES"), [(r["time"], r["partitions"], r["bytes"]) for r in rows])


@app.command(epilog=examples("kbroker backups verify /backup/kbroker"))
def verify(backups: Repository) -> None:
    """Read every file of every backup and verify its checksum. Ends with 1 if a file is missing or
    damaged."""
    repository, points = _open(backups)
    problems = {problem for point in points for problem in repository.damaged(point)}
    for problem in sorted(problems):
        say(problem)
    if problems:
        raise CommandFailed(f"missing or damaged: {counted(len(problems), 'file')}", ExitCode.FAILED)
    say(f"intact: {counted(len(points), 'backup')}")


@app.command(epilog=examples("kbroker backups prune /backup/kbroker --keep 48"))
def prune(
    backups: Repository,
    keep: Annotated[int, typer.Option(min=1, metavar="N", help="Number of newest backups to keep.")],
) -> None:
    """Remove old backups, and the files that no other backup needs."""
    repository, points = _open(backups)
    old = points[:-keep]
    gone = repository.drop(old)
    removed = f"{counted(len(old), 'backup')} and {counted(gone, 'file')} removed"
    say(f"{removed}, {counted(len(points) - len(old), 'backup')} left")


def _open(place: str) -> tuple[Any, list[Any]]:
    from kbroker.cli.backup.place import at

    repository = at(place, must_exist=True)
    return repository, repository.points()


def _row(point: Any) -> dict[str, Any]:
    return {
        "time": format_time(point.time_ms),
        "partitions": len(point.partitions),
        "bytes": sum(segment.size for one in point.partitions for segment in one.segments),
    }


def _now_ms() -> int:
    import time

    return time.time_ns() // 1_000_000
