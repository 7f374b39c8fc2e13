"""`kbroker backup`, `kbroker restore` and `kbroker backups`: back up a running broker and restore
it."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kbroker.cli.backup.purpose import Purpose
from kbroker.cli.connection import Connection
from kbroker.cli.exit_codes import ExitCode
from kbroker.cli.failures import CommandFailed, UsageFailed
from kbroker.cli.options import AsJson, Yes, confirm, connected, examples
from kbroker.cli.output import print_json, print_table, say
from kbroker.cli.own_kernels import use_kernels
from kbroker.cli.partitions import Partition
from kbroker.cli.points_in_time import MAX_MS, format_time, parse_time_ms
from kbroker.cli.progress import progress
from kbroker.config.counts import counted

if TYPE_CHECKING:
    from kbroker.cli.backup.folders import Folders
    from kbroker.cli.backup.place import Backups
    from kbroker.cli.backup.point import Point

app = typer.Typer(name="backups", no_args_is_help=True, help="List, verify and prune backups.")
BACKUP_EXAMPLES = examples(
    "kbroker backup /backup/kbroker",
    "AWS_ENDPOINT_URL=https://minio:9000 kbroker backup s3://backups/kbroker",
    "# every hour, keep the last 48",
    "0 * * * *  kbroker backup /backup/kbroker && kbroker backups prune /backup/kbroker --keep 48 --yes",
)
RESTORE_EXAMPLES = examples(
    "kbroker restore /backup/kbroker /var/lib/kbroker",
    "kbroker restore /backup/kbroker /tmp/orders --to 2026-01-31T12:00:00+01:00 --topic orders",
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
    interrupted backup is continued. See `kbroker docs backup`."""
    from kbroker.cli.backup.place import at

    repository = at(dest, Purpose.BACKUP, link=link)
    use_kernels()  # after that: a wrong DEST is refused at once
    from kbroker.cli.backup.cut import take_cut
    from kbroker.cli.backup.folders import folders_of
    from kbroker.cli.backup.taking import take

    cut = take_cut(broker)
    folders = folders_of(broker, cut.ends)
    # The broker comes first. Not before the cut: a slow process sees a transaction end at each
    # attempt.
    os.nice(10)
    with progress("backup", None, "bytes") as advance:
        try:
            point = take(repository, cut, folders.log_dirs, folders.leaders, advance)
        except PermissionError as error:
            raise CommandFailed(
                f"{error.filename}: {error.strerror}: run the backup as the broker's user or root"
            ) from error
        _refuse_moved(broker, folders, set(cut.ends) - {(one.topic, one.index) for one in point.partitions})
        place = repository.add(point)
    result = _row(point)
    if json:
        print_json(result | {"manifest": place})
    else:
        say(
            f"{counted(result['partitions'], 'partition')}, {counted(result['bytes'], 'byte')} "
            f"as of {result['time']} are in {place}"
        )


def _refuse_moved(broker: Connection, before: "Folders", left_out: set[Partition]) -> None:
    """Refuse a backup that lacks a partition because its log moved; a deleted topic is left out."""
    from kbroker.cli.backup.folders import folders_of

    if not left_out:
        return
    now = folders_of(broker, left_out).leaders
    moved = sorted(
        one for one in left_out if now.get(one, before.leaders.get(one)) != before.leaders.get(one)
    )
    if moved:
        raise CommandFailed(
            f"{moved[0][0]}-{moved[0][1]} moved to another log dir meanwhile: take the backup again, it copies only "
            "what is new"
        )


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
    limit = parse_time_ms(to, _now_ms()) if to is not None else MAX_MS
    repository, points = _open(backups, Purpose.READ)
    point = next((one for one in reversed(points) if one.time_ms <= limit), None)
    if point is None:
        first = format_time(points[0].time_ms)
        raise UsageFailed(f"no backup in {backups} at or before {to}: the first is of {first}")
    use_kernels()
    from kbroker.cli.backup.restoring import restore as run

    with progress("restore", None, "bytes") as advance:
        restored = run(repository, point, target, topic or [], advance)
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
    from kbroker.cli.backup.place import at

    points = at(backups, Purpose.LIST).points()
    rows = [_row(point) for point in points]
    if json:
        print_json(rows)
    else:
        print_table(("TIME", "PARTITIONS", "BYTES"), [(r["time"], r["partitions"], r["bytes"]) for r in rows])
    if not rows:
        say(f"{backups}: no complete backup; `kbroker backup {backups}` takes or continues one")


@app.command(epilog=examples("kbroker backups verify /backup/kbroker"))
def verify(backups: Repository) -> None:
    """Read every file of every backup and verify its checksum. Ends with 1 if a file is missing or
    damaged."""
    repository, points = _open(backups, Purpose.READ)
    problems = {problem for point in points for problem in repository.damaged(point)}
    for problem in sorted(problems):
        say(problem)
    if problems:
        files = counted(len(problems), "file")
        remedy = "remove damaged ones, and the next backup stores again what the broker still has"
        raise CommandFailed(f"missing or damaged: {files}; {remedy}", ExitCode.FAILED)
    say(f"intact: {counted(len(points), 'backup')}")


@app.command(
    epilog=examples(
        "kbroker backups prune /backup/kbroker --keep 48",
        "kbroker backups prune /backup/kbroker --keep 48 --yes",
    )
)
def prune(
    backups: Repository,
    keep: Annotated[int, typer.Option(min=1, metavar="N", help="Number of newest backups to keep.")],
    yes: Yes = False,
) -> None:
    """Remove old backups, and the files that no other backup needs."""
    agreed = None
    if not yes:  # it waits without the lock: a backup may run meanwhile
        _, points = _open(backups, Purpose.LIST)
        agreed = len(points[:-keep])
        if agreed:  # else only files of backups that were interrupted
            confirm(f"Remove {counted(agreed, 'backup')} of {len(points)} in {backups}?", yes)
    repository, points = _open(backups, Purpose.PRUNE)
    old = points[:-keep][:agreed]
    gone = repository.drop(old)
    removed = f"{counted(len(old), 'backup')} and {counted(gone, 'file')} removed"
    say(f"{removed}, {counted(len(points) - len(old), 'backup')} left")


def _open(place: str, purpose: Purpose) -> tuple["Backups", "list[Point]"]:
    """The place and its points, at least one. Raises CommandFailed, UsageFailed, OSError."""
    from kbroker.cli.backup.place import at

    repository = at(place, purpose)
    points = repository.points()
    if not points:
        raise UsageFailed(f"{place}: no backup here; `kbroker backup {place}` takes one")
    return repository, points


def _row(point: "Point") -> dict[str, Any]:
    return {
        "time": format_time(point.time_ms),
        "partitions": len(point.partitions),
        "bytes": sum(segment.size for one in point.partitions for segment in one.segments),
    }


def _now_ms() -> int:
    import time

    return time.time_ns() // 1_000_000
