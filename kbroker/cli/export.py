"""`kbroker export`: prepares the log dirs of a stopped kbroker for Apache Kafka. Needs no
broker."""

import os
import sqlite3
import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kbroker.cli.failures import CommandFailed, UsageFailed
from kbroker.cli.options import examples
from kbroker.cli.output import say
from kbroker.cli.own_kernels import use_kernels
from kbroker.config.counts import counted

if TYPE_CHECKING:
    from kbroker.io.files.log_dir import LogDir

app = typer.Typer(name="export", no_args_is_help=True, help="Make a log directory ready for Apache Kafka.")


class Release(StrEnum):
    """Releases of Apache Kafka that can start on the log dirs."""

    V3_9 = "3.9"
    V4_0 = "4.0"
    V4_1 = "4.1"
    V4_2 = "4.2"
    V4_3 = "4.3"


@app.callback()
def export() -> None:
    """Prepare log directories of a stopped kbroker for Apache Kafka."""


@app.command(
    epilog=examples(
        "kbroker export kraft data > kraft.properties",
        "# with the listeners and settings of the broker",
        "kbroker export kraft --properties server.properties data > kraft.properties",
        "kafka-server-start.sh kraft.properties",
        "# for an earlier Apache Kafka, with two log.dirs",
        "kbroker export kraft --kafka 3.9 /disk1/data /disk2/data",
    )
)
def kraft(
    dirs: Annotated[list[Path], typer.Argument(metavar="DIR", show_default=False)],
    kafka: Annotated[
        Release,
        typer.Option("--kafka", help="The release of Apache Kafka that will start on the directories."),
    ] = Release.V4_3,
    properties: Annotated[
        Path | None,
        typer.Option(
            "--properties",
            metavar="FILE",
            help="The broker's server.properties: its listeners and its other settings that Apache Kafka has are "
            "printed, too, also passwords.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Write KRaft metadata: Apache Kafka starts on the directories with every topic, record, offset
    and setting.

    Name all log.dirs of a cleanly stopped kbroker, in the same order. A server.properties for
    Apache Kafka is printed to stdout. kbroker can start on the directories again, and takes over
    the changes that Apache Kafka made (`kbroker docs move-out`)."""
    from kbroker.control.store.store import StoreError

    log_dirs = [os.path.abspath(path) for path in dirs]  # noqa: PTH100 links are kept: the store names dirs this way
    _check_used(log_dirs)
    given = None if properties is None else _read(properties)
    use_kernels()
    from kbroker.control.kraft.export import ExportError
    from kbroker.control.kraft.export import export as write
    from kbroker.control.kraft.kafka_properties import kafka_properties
    from kbroker.control.store.choice import open_newest

    with ExitStack() as stack:
        folders = _locked(log_dirs, stack)
        cluster_id, node_id, directory_ids = _identities(log_dirs)
        try:
            store = stack.enter_context(closing(open_newest(log_dirs, log_dirs, cluster_id).store))
            now_ms = time.time_ns() // 1_000_000
            done = write(store, log_dirs, node_id, directory_ids, kafka.value, now_ms)
            for folder in folders:
                folder.write_clean_marker(done.broker_epoch)
        except (ExportError, StoreError, sqlite3.Error) as error:
            raise CommandFailed(str(error)) from None
    held = f"{counted(done.topics, 'topic')} with {counted(done.partitions, 'partition')}"
    say(f"{held}: {done.snapshot}")
    for left in done.left_out:
        say(f"left out, because Apache Kafka has no such setting: {left}")
    print(kafka_properties(done, log_dirs, node_id, given))


def _check_used(log_dirs: list[str]) -> None:
    from kbroker.control.store.store import FILE_NAME

    if not any(Path(path, FILE_NAME).exists() for path in log_dirs):
        which = "not a log directory of kbroker, or kbroker has not run on it yet"
        raise UsageFailed(f"{', '.join(log_dirs)}: no {FILE_NAME} here: {which}")


def _read(file: Path) -> dict[str, str]:
    """The pairs of a server.properties that kbroker accepts. Raises UsageFailed."""
    from kbroker.config.broker import BrokerConfig
    from kbroker.config.properties import read
    from kbroker.config.setting import ConfigError

    try:
        pairs = read(file)
        BrokerConfig.load(pairs)
    except ConfigError as error:
        raise UsageFailed("; ".join(str(error).splitlines())) from None
    return pairs


def _locked(log_dirs: Sequence[str], stack: ExitStack) -> "list[LogDir]":
    """Lock log dirs until the stack is closed, and check that the last stop was clean. Raises
    CommandFailed."""
    from kbroker.io.files.log_dir import LogDir, LogDirInUse
    from kbroker.log import files

    locked = [LogDir(path) for path in log_dirs]
    for folder in locked:
        try:
            folder.lock()
        except LogDirInUse as error:
            raise CommandFailed(str(error)) from None
        stack.callback(folder.unlock)
        if not Path(folder.path, files.CLEAN_SHUTDOWN).exists():
            raise CommandFailed(f"{folder.path}: the last stop was not clean; start kbroker and stop it once")
    return locked


def _identities(log_dirs: Sequence[str]) -> tuple[str, int, dict[str, str]]:
    """Cluster id, node id and directory ids of log dirs. Raises CommandFailed."""
    from kbroker.io.files.meta_properties import MetaPropertiesError, read

    ids: dict[str, str] = {}
    whose = set()
    for path in log_dirs:
        try:
            found = read(path)
        except MetaPropertiesError as error:
            raise CommandFailed(str(error)) from None
        if found is None or not found.directory_id:
            raise CommandFailed(
                f"{path}: no meta.properties with a directory.id; start kbroker on it and stop it"
            )
        ids[path] = found.directory_id
        whose.add((found.cluster_id, found.node_id))
    if len(whose) > 1:
        raise CommandFailed(f"name the log.dirs of one broker: these belong to {len(whose)}: {sorted(whose)}")
    ((cluster_id, node_id),) = whose
    return cluster_id, node_id, ids
