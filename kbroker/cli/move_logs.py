"""`kbroker topics move-logs`: moves the logs of partitions to other log dirs of their brokers
(KIP-113).
"""

import time
from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import Annotated, Any

import typer
from msgspec import Struct

from kbroker.cli.completion import complete_topic
from kbroker.cli.connection import Connection
from kbroker.cli.failures import CommandFailed, UsageFailed, broker_error, explain, raise_first
from kbroker.cli.log_dirs import described
from kbroker.cli.options import connected, examples
from kbroker.cli.output import print_table, say
from kbroker.cli.partitions import Partition, scoped
from kbroker.cli.sizes import size
from kbroker.config.counts import counted

EXAMPLES = examples(
    "kbroker topics move-logs orders:0,1 --to /disk2/kbroker",
    "# empty a disk: each log goes to the log dir with the most free space",
    "kbroker topics move-logs --from /disk2/kbroker --wait",
)
CHECK_SECONDS = 1.0


class Log(Struct, frozen=True):
    """A log of a broker. moving_to: the log dir that it is being copied to."""

    broker: int
    partition: Partition
    log_dir: str
    bytes: int
    moving_to: str | None = None

    @property
    def name(self) -> str:
        return f"{self.partition[0]}-{self.partition[1]}"


class LogDir(Struct):
    """An online log dir. room: free bytes of its disk, less what will be moved to it."""

    room: int
    is_cordoned: bool


class LogDirs:
    """The log dirs of all brokers and their logs, as DescribeLogDirs shows them."""

    def __init__(self, answers: Iterable[dict[str, Any]]) -> None:
        self.online: dict[int, dict[str, LogDir]] = defaultdict(dict)
        present: dict[tuple[int, Partition], tuple[str, int]] = {}
        future: dict[tuple[int, Partition], str] = {}
        for log_dir in described(answers):
            if log_dir.error_code:
                continue
            room = max(log_dir.usable_bytes or 0, 0)
            self.online[log_dir.broker][log_dir.path] = LogDir(room, log_dir.is_cordoned)
            for log in log_dir.logs:
                key = log_dir.broker, (log.topic, log.partition)
                if log.future:
                    future[key] = log_dir.path
                else:
                    present[key] = log_dir.path, log.bytes
        self.logs = [Log(*key, *where, future.get(key)) for key, where in sorted(present.items())]

    def chosen(self, partitions: Collection[Partition] | None, source: str | None) -> list[Log]:
        """The logs of these partitions (None: all) in this log dir (None: any)."""
        return [
            log
            for log in self.logs
            if (partitions is None or log.partition in partitions) and source in (None, log.log_dir)
        ]

    def with_most_space(self, log: Log) -> str:
        """The other log dir with the most room, which then has less. Raises CommandFailed if there
        is none."""
        others = {
            path: log_dir
            for path, log_dir in self.online[log.broker].items()
            if path != log.log_dir and not log_dir.is_cordoned
        }
        if not others:
            raise CommandFailed(f"broker {log.broker} has no other log dir for {log.name}")
        path = max(others, key=lambda each: others[each].room)
        others[path].room -= log.bytes
        return path


@connected
def move_logs(
    broker: Connection,
    scopes: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TOPIC[:PARTITIONS]",
            help="Default: all logs of the log dir --from.",
            show_default=False,
            autocompletion=complete_topic,
        ),
    ] = None,
    source: Annotated[
        str | None, typer.Option("--from", metavar="LOG-DIR", help="Only logs in this log dir.")
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="LOG-DIR",
            help="Target log dir.",
            show_default="the log dir with the most free space",
        ),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Return when all have moved.")] = False,
) -> None:
    """Move logs to other log dirs of their brokers, while they are in use.

    Name topics, or a log dir with --from. replica.alter.log.dirs.io.max.bytes.per.second limits the
    copies."""
    if not scopes and source is None:
        raise UsageFailed("name topics, or a log dir with --from")
    partitions = scoped(broker.admin(), scopes, broker.timeout_s) if scopes else None
    with broker.kafka_python_admin() as client:
        found = LogDirs(client.describe_log_dirs())
        _require_known(found, source, target)
        logs = found.chosen(partitions, source)
        moves = _planned(found, logs, target)
        failures = _begin(client, moves)
        begun = {log: path for log, path in moves.items() if log not in failures}
        pending = begun | _being_copied(logs, moves)
        rows = [(log.broker, *log.partition, size(log.bytes), path) for log, path in begun.items()]
        if rows:
            print_table(("BROKER", "TOPIC", "PARTITION", "SIZE", "TO"), rows)
        elif not failures and not pending:
            say("every log is where it should be")
        raise_first(list(failures.values()))
        if wait:
            _follow(client, pending)
        elif pending:
            say("moving; kbroker cluster log-dirs --partitions shows what is left")


def _require_known(found: LogDirs, source: str | None, target: str | None) -> None:
    every = [each for of_broker in found.online.values() for each in of_broker.items()]
    known = sorted({path for path, _ in every})
    for path in (source, target):
        if path is not None and path not in known:
            raise CommandFailed(f"{path} is not an online log dir; choose from {', '.join(known)}")
    if any(path == target and log_dir.is_cordoned for path, log_dir in every):
        raise CommandFailed(f"{target} is cordoned: cordoned.log.dirs keeps logs out of it")


def _planned(found: LogDirs, logs: list[Log], target: str | None) -> dict[Log, str]:
    """The target of each log that is not on its way there: the largest first, as their room is
    shared. A log that is being copied elsewhere stays where it is if that is the target."""
    moves = {}
    for log in sorted(logs, key=lambda each: -each.bytes):
        path = target or log.moving_to or found.with_most_space(log)
        if path != (log.moving_to or log.log_dir):
            moves[log] = path
    return moves


def _being_copied(logs: list[Log], moves: dict[Log, str]) -> dict[Log, str]:
    """The targets of the logs that an earlier command moves."""
    return {log: log.moving_to for log in logs if log.moving_to is not None and log not in moves}


def _begin(client: Any, moves: dict[Log, str]) -> dict[Log, CommandFailed]:
    """Begin the moves; returns those that were refused."""
    targets = {(*log.partition, log.broker): path for log, path in moves.items()}
    try:
        answers = client.alter_replica_log_dirs(targets)
    except Exception as error:
        raise explain(error) or error from error
    codes = {(each.broker_id, each.topic, each.partition): error.errno for each, error in answers.items()}
    return {
        log: broker_error(code, None, log.name)
        for log in moves
        if (code := codes.get((log.broker, *log.partition), 0))
    }


def _follow(client: Any, moves: dict[Log, str]) -> None:
    """Wait until no log has a copy in progress. Raises CommandFailed for a log that did not
    arrive."""
    targets = {(log.broker, log.partition): path for log, path in moves.items()}
    while True:
        found = LogDirs(client.describe_log_dirs())
        now = {(log.broker, log.partition): log for log in found.logs}
        moving = [log for key in targets if (log := now.get(key)) is not None and log.moving_to is not None]
        if not moving:
            break
        say(f"{counted(len(moving), 'log')} still moving, {size(sum(log.bytes for log in moving))}")
        time.sleep(CHECK_SECONDS)
    late = [
        log.name
        for log, path in moves.items()
        if not _arrived(found, log, path, now.get((log.broker, log.partition)))
    ]
    if late:
        raise CommandFailed(f"not moved: {', '.join(late)}; the broker's log says why")
    say(f"{counted(len(targets), 'log')} moved")


def _arrived(found: LogDirs, log: Log, path: str, now: Log | None) -> bool:
    """The log is in its new log dir, or was deleted: not just gone with a log dir that failed."""
    return now.log_dir == path if now else {log.log_dir, path} <= found.online[log.broker].keys()
