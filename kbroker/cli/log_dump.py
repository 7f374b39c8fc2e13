"""`kbroker log dump`: prints the contents of a log directory's files. Needs no broker."""

import sys
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from kbroker.cli.exit_codes import ExitCode
from kbroker.cli.failures import CommandFailed, UsageFailed
from kbroker.cli.input_files import open_bytes, unreadable
from kbroker.cli.options import examples
from kbroker.cli.output import json_text, printed, say
from kbroker.cli.own_kernels import use_kernels
from kbroker.cli.progress import progress
from kbroker.config.counts import counted
from kbroker.config.whole_numbers import whole_number
from kbroker.log.files import base_offset_of
from kbroker.protocol.kafka_uuid import format_uuid

app = typer.Typer(name="log", no_args_is_help=True, help="Look into the files of a log directory.")
Item = dict[str, Any]
ID_BYTES = 16

_SUFFIXES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
_NAMES = ("leader-epoch-checkpoint", "partition.metadata", "meta.properties")
_HIDDEN = ("type", "timestampType", "headers")
_CONTENTS = ("key", "payload")


@app.callback()
def log() -> None:
    """Read the files of a log directory of kbroker or Apache Kafka."""


@app.command(
    epilog=examples(
        "kbroker log dump data/orders-0",
        "kbroker log dump data/orders-0/00000000000000000000.log --print-data-log",
        "# the committed offsets of groups",
        "kbroker log dump data/__consumer_offsets-12 --print-data-log",
        "kbroker log dump data/orders-0 --json | jq 'select(.type==\"batch\") | .size'",
    )
)
def dump(
    paths: Annotated[list[Path], typer.Argument(metavar="FILE|FOLDER", show_default=False)],
    print_data_log: Annotated[
        bool, typer.Option("--print-data-log", help="Print every record with key and value.")
    ] = False,
    deep: Annotated[bool, typer.Option("--deep", help="Print every record without key and value.")] = False,
    decode: Annotated[
        bool, typer.Option(help="Decode the records of the coordinators' topics (groups, transactions).")
    ] = True,
    json_lines: Annotated[bool, typer.Option("--json", help="Print a line of JSON for each item.")] = False,
) -> None:
    """Print batches, records, indexes, producer snapshots and checkpoints of files or whole
    partition folders.

    Every CRC is checked and both indexes are compared with the log; faults are printed to stderr,
    and the command ends with 1. Fields and their names are those of Kafka's DumpLogSegments."""
    records = print_data_log or deep
    if not decode and not records:
        raise UsageFailed("--no-decode needs --print-data-log or --deep: it would have no effect")
    files = list(_files(paths))
    use_kernels()
    problems = 0
    with progress("dump", sum(file.stat().st_size for file in files), "bytes") as advance:
        for file in files:
            if not json_lines:
                _print_title(file)
            items = _items(file, records=records, decode=decode)
            problems += _print_items(items, str(file), json_lines=json_lines, contents=print_data_log)
            advance(file.stat().st_size)
    if problems:
        raise CommandFailed(f"{counted(problems, 'problem')} found", ExitCode.FAILED)


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    """The given files and the files of the given folders, segment by segment. Raises
    UsageFailed."""
    for path in paths:
        try:
            found = _files_of(path)
        except OSError as error:
            raise unreadable(path, error) from error
        for file in found:
            open_bytes(file).close()
            yield file


def _files_of(path: Path) -> list[Path]:
    """The files of one argument. Raises UsageFailed, OSError."""
    if path.is_dir():
        found = [f for f in path.iterdir() if _is_of_a_log(f.name)]
        found += path.glob("*-offset-checkpoint")
        if not found:
            raise UsageFailed(f"{path}: no file of a log in this folder")
        return sorted(found, key=_order)
    if not path.is_file():
        raise UsageFailed(f"{path}: no such file or folder")
    if path.suffix not in _SUFFIXES and path.name not in _NAMES and not path.name.endswith("-checkpoint"):
        raise UsageFailed(f"{path}: not a file of a log directory: {', '.join((*_SUFFIXES, *_NAMES))}")
    return [path]


def _is_of_a_log(name: str) -> bool:
    """Other files may lie in a folder, such as run.log."""
    return name in _NAMES or (name.endswith(_SUFFIXES) and base_offset_of(name) is not None)


def _order(file: Path) -> tuple[str, int]:
    return (file.stem, _SUFFIXES.index(file.suffix)) if file.suffix in _SUFFIXES else (f"~{file.name}", 0)


def _items(file: Path, *, records: bool, decode: bool) -> Iterator[Item]:
    from kbroker.cli import index_dump
    from kbroker.cli.segment_dump import dump_segment, problem
    from kbroker.log.errors import CorruptLog

    readers = {
        ".index": index_dump.dump_index,
        ".timeindex": index_dump.dump_time_index,
        ".txnindex": index_dump.dump_txn_index,
        ".snapshot": index_dump.dump_snapshot,
    }
    try:
        if file.suffix == ".log":
            yield from dump_segment(file, records=records, decode=decode)
        else:
            yield from readers.get(file.suffix, index_dump.dump_checkpoint)(file)
    except (CorruptLog, OSError, ValueError, IndexError) as error:
        yield problem(file, str(error))


def _print_title(file: Path) -> None:
    print(f"Dumping {file}")
    if file.suffix == ".log":
        print(f"Log starting offset: {'?' if (start := whole_number(file.stem)) is None else start}")


def _print_items(items: Iterable[Item], file: str, *, json_lines: bool, contents: bool) -> int:
    problems = 0
    for item in items:
        if item["type"] == "problem":
            problems += 1
            say(f"{item['file']}: {item['problem']}")
        if json_lines:
            if item["type"] == "record" and not contents:
                item = {name: value for name, value in item.items() if name not in _CONTENTS}
            print(json_text({"file": file, **item}, default=_plain))
        elif item["type"] != "problem":
            line = _line(item, contents)
            print(printed(line, "\t") if sys.stdout.isatty() else line)
    return problems


def _plain(value: Any) -> str:
    """Values without a JSON form: ids as Kafka prints them, other bytes as text."""
    if isinstance(value, uuid.UUID):
        value = value.bytes
    if isinstance(value, bytes | memoryview):
        data = bytes(value)
        if len(data) == ID_BYTES:
            return format_uuid(data)
        return data.decode(errors="replace")
    return str(value)


def _line(item: Item, contents: bool) -> str:
    """One line of `name: value` pairs, as Kafka's tool prints it; a record begins with a bar."""
    if item["type"] == "empty":
        return f"{item['file']} is empty."
    if item["type"] == "preallocated":
        return f"{item['bytes']} preallocated bytes after the last batch"
    if item["type"] == "property":
        return f"{item['key']}: {item['value']}"
    hidden = _HIDDEN if contents else (*_HIDDEN, *_CONTENTS)
    parts = []
    for name, value in item.items():
        if name == "timestamp" and "timestampType" in item:
            parts.append(f"{item['timestampType']}: {value}")
        elif name == "headers":
            parts.append(f"headerKeys: [{','.join(key for key, _ in value)}]")
        elif name in _CONTENTS and value is None:
            continue
        elif name not in hidden:
            parts.append(f"{name}: {_shown(name, value)}")
    line = " ".join(parts)
    return f"| {line}" if item["type"] == "record" else line


def _shown(name: str, value: Any) -> str:
    if name in ("deleteHorizonMs", "currentTxnFirstOffset"):  # an OptionalLong in Kafka's output
        return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return json_text(value, default=_plain)
    return str(value)
