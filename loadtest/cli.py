"""`kbroker loadtest`: run a load, prove a broker under faults, show a plan of faults, measure the
histories' cost."""

import signal
import sys
import time
import traceback
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from confluent_kafka import KafkaError, KafkaException

from loadtest.brokers import NoBroker, OwnBroker, reached
from loadtest.conductor import Conductor, LoadFailed, describe, say
from loadtest.examples import examples
from loadtest.exit_codes import (
    CANNOT_JUDGE,
    CLEAN,
    FAILED,
    INTERRUPTED,
    NO_BROKER,
    WRONG_USE,
    Program,
)
from loadtest.faults.schedule import KINDS, UnknownFault, parse_kinds, plan
from loadtest.flowing import flow
from loadtest.idle_options import LoadCommand
from loadtest.judging import LiveJudge, together, verdict
from loadtest.overhead import measure
from loadtest.settings import Settings, WrongSetting, parse_record_bytes
from loadtest.single_values import refuse_second_values

app = typer.Typer(
    cls=Program,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help=__doc__,
    context_settings={"help_option_names": ["--help", "-h"]},
)
DEFAULT = Settings()
DEFAULT_BYTES = "-".join(map(str, DEFAULT.record_bytes))
LEFT_OUT = "a remote target: faults that need access to its host are left out"


class BrokerKind(StrEnum):
    """The broker to start if no target is given."""

    KBROKER = "kbroker"
    KAFKA = "kafka"


Seconds = Annotated[float, typer.Option(metavar="SECONDS", help="Duration of the load.")]
Target = Annotated[
    str | None, typer.Option(metavar="HOST:PORT", help="A running broker.", show_default="start one")
]
CommandConfig = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="With --target: file with client settings (security and others), with Java's or librdkafka's "
        "names.",
    ),
]
Broker = Annotated[BrokerKind, typer.Option(help="The broker to start if there is no --target.")]
Seed = Annotated[int, typer.Option(help="Seed of faults, keys and aborts; the same seed repeats them.")]
Faults = Annotated[str, typer.Option(metavar="WORD[,...]", help=f"all, none, or some of: {','.join(KINDS)}")]
Folder = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="New folder for the run.", show_default="reports/load/TIME"),
]
Rate = Annotated[
    float,
    typer.Option(metavar="RECORDS/S", help="Rate of all producers together; 0: as fast as possible."),
]
Shape = Annotated[
    str,
    typer.Option(
        metavar="WORD",
        help="Rate over time: steady; ramp, from 0 to twice the rate; spike, of four times the rate for 5 s of "
        "each 30 s; peaks, a wave of a minute between 0 and twice the rate.",
    ),
]
RecordBytes = Annotated[
    str, typer.Option(metavar="BYTES", help="Size of a value: 256, or 100-1000 for a spread.")
]
Keys = Annotated[int, typer.Option(help="Number of different keys.")]
Skew = Annotated[float, typer.Option(help="Zipf's exponent of the keys; 0: all equally often.")]
Partitions = Annotated[int, typer.Option(help="Number of partitions of each topic.")]
Compression = Annotated[
    str, typer.Option(metavar="WORD", help="Codec of the producers: none, gzip, snappy, lz4, zstd.")
]
LingerMs = Annotated[float, typer.Option(metavar="MS", help="linger.ms of the producers.")]
Acks = Annotated[str, typer.Option(metavar="WORD", help="acks of the plain producers: all, 1, 0.")]
Plain = Annotated[int, typer.Option(help="Number of producers without idempotence.")]
Idempotent = Annotated[int, typer.Option(help="Number of idempotent producers.")]
Transactional = Annotated[int, typer.Option(help="Number of transactional producers.")]
Copiers = Annotated[
    int,
    typer.Option(
        help="Number of clients that consume, transform and produce exactly once, from the transactional topic."
    ),
]
Consumers = Annotated[int, typer.Option(help="Number of group members, spread over the topics.")]
Sharers = Annotated[int, typer.Option(help="Number of members of share groups, spread over the topics.")]
GroupProtocol = Annotated[
    str,
    typer.Option(metavar="WORD", help="Protocol of the consumer groups: classic, consumer (KIP-848)."),
]
ConsumeRate = Annotated[
    float, typer.Option(metavar="RECORDS/S", help="Maximum rate of each consumer; 0: no limit.")
]
Churn = Annotated[
    float,
    typer.Option(metavar="SECONDS", help="Time after which a consumer is replaced by a new one; 0: never."),
]
TransactionRecords = Annotated[int, typer.Option(help="Number of records of a transaction.")]
AbortShare = Annotated[float, typer.Option(help="Share of transactions that producers abort, 0 to 1.")]
Workers = Annotated[
    int, typer.Option(help="Number of Locust workers; more than 1: processes, beside a master.")
]
History = Annotated[bool, typer.Option(help="Write histories (required for a judge).")]


@app.command(
    epilog=examples(
        "kbroker loadtest run --target 127.0.0.1:9092 --seconds 30",
        "# a broker with faults, and a judge",
        "kbroker loadtest run --faults kill,pause --seed 7 --judge",
    )
)
def run(
    seconds: Seconds = DEFAULT.seconds,
    target: Target = None,
    command_config: CommandConfig = None,
    broker: Broker = BrokerKind.KBROKER,
    seed: Seed = DEFAULT.seed,
    faults: Faults = "none",
    folder: Folder = None,
    rate: Rate = DEFAULT.rate,
    shape: Shape = DEFAULT.shape,
    record_bytes: RecordBytes = DEFAULT_BYTES,
    keys: Keys = DEFAULT.keys,
    skew: Skew = DEFAULT.skew,
    partitions: Partitions = DEFAULT.partitions,
    compression: Compression = DEFAULT.compression,
    linger_ms: LingerMs = DEFAULT.linger_ms,
    acks: Acks = DEFAULT.acks,
    plain: Plain = DEFAULT.plain,
    idempotent: Idempotent = DEFAULT.idempotent,
    transactional: Transactional = DEFAULT.transactional,
    copiers: Copiers = DEFAULT.copiers,
    consumers: Consumers = DEFAULT.consumers,
    sharers: Sharers = DEFAULT.sharers,
    group_protocol: GroupProtocol = DEFAULT.group_protocol,
    consume_rate: ConsumeRate = DEFAULT.consume_rate,
    churn_seconds: Churn = DEFAULT.churn_seconds,
    transaction_records: TransactionRecords = DEFAULT.transaction_records,
    abort_share: AbortShare = DEFAULT.abort_share,
    workers: Workers = DEFAULT.workers,
    history: History = DEFAULT.history,
    judge: Annotated[
        bool, typer.Option(help="Judge the run with spark_validation; its code is the exit code.")
    ] = False,
    live: Annotated[
        bool, typer.Option(help="Also judge while the load runs (Structured Streaming).")
    ] = False,
    keep_data: Annotated[bool, typer.Option(help="Keep the data of the started broker.")] = False,
) -> None:
    """Load a broker, optionally with faults and a judge."""
    given = dict(locals())
    settings = _settings(given, record_bytes)
    kinds = _kinds(faults)
    if (judge or live) and not history:
        raise typer.BadParameter("--judge and --live need --history")
    work = partial(_whole_run, settings, target, command_config, broker, kinds, folder)
    raise typer.Exit(_code_of(lambda: work(judge, live, keep_data)))


@app.command(
    "plan",
    epilog=examples(
        "kbroker loadtest plan --seed 7 --seconds 600",
    ),
)
def show_plan(
    seed: Seed = DEFAULT.seed,
    seconds: Seconds = DEFAULT.seconds,
    faults: Faults = "all",
    target: Target = None,
    broker: Broker = BrokerKind.KBROKER,
) -> None:
    """Print the faults of a run with this seed."""
    kinds = _kinds(faults)
    _settings({"seconds": seconds}, DEFAULT_BYTES)
    found = plan(seed, seconds, kinds, broker.value if target is None else "remote")
    for fault in found:
        print(fault)
    if target is not None and kinds:
        print(f"kbroker loadtest: {LEFT_OUT}", file=sys.stderr)
    elif not found:
        print("kbroker loadtest: no faults in this time", file=sys.stderr)


@app.command(
    epilog=examples(
        "kbroker loadtest overhead --pairs 10",
    )
)
def overhead(
    seconds: Annotated[
        float,
        typer.Option(metavar="SECONDS", help="Duration of a producer's turn; a consumer's takes a fifth."),
    ] = 2.0,
    pairs: Annotated[
        int, typer.Option(min=1, max=10_000, help="Number of turns with and without histories.")
    ] = 20,
    target: Target = None,
    command_config: CommandConfig = None,
    record_bytes: RecordBytes = "256",
) -> None:
    """Measure the cost of histories: one producer and one consumer at full speed, alternately with
    and without histories."""
    settings = _settings({"seconds": seconds}, record_bytes)
    raise typer.Exit(_code_of(lambda: measure(seconds, pairs, target, settings.record_bytes, command_config)))


def _settings(given: dict[str, Any], record_bytes: str) -> Settings:
    names = {name: given[name] for name in Settings.__slots__ if name in given}
    try:
        return Settings(**{**names, "record_bytes": parse_record_bytes(record_bytes)})
    except WrongSetting as wrong:
        _stop(wrong, WRONG_USE)
        raise


def first_line(settings: Settings, faults: int) -> str:
    """The seed of a run, its number of faults, and its settings."""
    count = f"{faults} {'fault' if faults == 1 else 'faults'}"
    return f"seed {settings.seed}: {count} in {settings.seconds:.0f} s; settings: {describe(settings)}"


def _kinds(faults: str) -> list[str]:
    try:
        return parse_kinds(faults)
    except UnknownFault as wrong:
        _stop(wrong, WRONG_USE)
        raise


def _stop(failure: Exception, code: int) -> None:
    print(f"kbroker loadtest: {failure}", file=sys.stderr)
    raise typer.Exit(code) from failure


def _code_of(work: Callable[[], int | None]) -> int:
    """The exit code of a load. Python's own codes of a bug and of Ctrl-C are verdicts."""
    try:
        return work() or CLEAN
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as failure:
        return INTERRUPTED if was_interrupted(failure) else _explained(failure)


def _explained(failure: Exception) -> int:
    """Print the reason; returns the exit code."""
    if isinstance(failure, WrongSetting):
        code, reason = WRONG_USE, str(failure)
    elif isinstance(failure, NoBroker | LoadFailed):
        code, reason = NO_BROKER, str(failure)
    elif isinstance(failure, KafkaException):
        error = failure.args[0]
        code, reason = NO_BROKER, error.str() if isinstance(error, KafkaError) else str(error)
    elif isinstance(failure, OSError):
        file = f"{failure.filename}: " if failure.filename else ""
        code, reason = FAILED, f"{file}{failure.strerror or failure}"
    else:
        traceback.print_exception(failure)
        return CANNOT_JUDGE
    print(f"kbroker loadtest: {reason}", file=sys.stderr)
    return code


def was_interrupted(error: BaseException | None) -> bool:
    """Whether Ctrl-C came first: a client library raises another error then."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _whole_run(
    settings: Settings,
    target: str | None,
    command_config: Path | None,
    kind: BrokerKind,
    kinds: list[str],
    folder: Path | None,
    judge: bool,
    live: bool,
    keep_data: bool,
) -> int:
    folder = (folder or Path("reports/load") / time.strftime("%Y%m%d-%H%M%S")).absolute()
    if folder.exists() and any(folder.iterdir()):
        print(f"kbroker loadtest: {folder} exists and is not empty", file=sys.stderr)
        return WRONG_USE
    bootstrap = None if target is None else reached(target, command_config, judge or live)
    folder.mkdir(parents=True, exist_ok=True)
    faults = plan(settings.seed, settings.seconds, kinds, kind.value if target is None else "remote")
    say(first_line(settings, len(faults)))
    for fault in faults:
        say(f"  planned {fault}")
    if target is not None and kinds:
        say(LEFT_OUT)
    broker: OwnBroker | None = None
    signal.signal(
        signal.SIGTERM, signal.default_int_handler
    )  # as Ctrl-C: stops everything that was started here
    try:
        if bootstrap is None:
            disk_bytes = int(settings.rate * settings.record_bytes[1] * settings.seconds * 4) + (2 << 30)
            broker = OwnBroker(folder / "broker", kind.value, disk_bytes, kinds)
            for name, reason in broker.missing.items():
                say(f"fault {name} cannot be done here and will be skipped: {reason}")
            broker.start()
            bootstrap = broker.bootstrap
        say(f"run {folder} against {bootstrap}")
        return _play(settings, bootstrap, broker, faults, folder, judge, live)
    finally:
        if broker is not None:
            if broker.alive() and (wrong := broker.stop()):
                say(f"the broker did not stop cleanly: {wrong}")
            broker.close(keep_data)


def _play(
    settings: Settings,
    bootstrap: str,
    broker: OwnBroker | None,
    faults: list[Any],
    folder: Path,
    judge: bool,
    live: bool,
) -> int:
    conductor = Conductor(folder, settings, bootstrap, broker, faults)
    data_dir = broker.data_dir if broker is not None else None
    beside: LiveJudge | None = None
    try:
        conductor.prepare()
        beside = LiveJudge(folder, bootstrap, data_dir) if live else None
        conductor.play()
    except BaseException as reason:
        if beside is not None:
            beside.abandon()
        if isinstance(reason, KeyboardInterrupt):
            conductor.abandon()
        raise
    for name, value in conductor.figures.items():
        say(f"{name:>28}  {value}")
    if not settings.history:
        return CLEAN
    conductor.drain()
    say(f"histories in {folder}; Locust's reports: {folder / 'locust.html'}, locust_*.csv")
    seen = beside.verdict() if beside is not None else CLEAN
    return together(seen, verdict(folder, bootstrap, data_dir) if judge else CLEAN)


flow(app)
refuse_second_values(app, LoadCommand)
