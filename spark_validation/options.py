"""Options and exit codes of `kbroker judge`, which are read without Spark."""

import argparse
import sys
from pathlib import Path
from typing import Any, NoReturn

CLEAN, CONVICTED, CANNOT_JUDGE, INTERRUPTED = 0, 1, 2, 130
EXIT_CODES = {
    CLEAN: "clean",
    CONVICTED: "convicted: a record was lost, repeated, reordered or altered",
    CANNOT_JUDGE: "there is no verdict: something is missing or damaged, or the command line is wrong",
    INTERRUPTED: "stopped by Ctrl-C",
}
EXAMPLES = (
    "# a run of `kbroker loadtest run`, by the segment files of its broker",
    "kbroker judge --history reports/load/20260131-120000 --segments /var/lib/kbroker --report verdict.html",
    "# the log read from a running broker; a slow acknowledgement convicts, too",
    "kbroker judge --history RUN --bootstrap 127.0.0.1:9092 --max-ack-ms 50",
    "# a broker that requires TLS or a login",
    "kbroker judge --history RUN --bootstrap HOST:PORT --command-config client.properties",
)
"""Command lines of `kbroker judge`, and "# ..." lines that explain them."""


class Once(argparse._StoreAction):
    """An option with one value, of which argparse would use the last of two."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        given = vars(namespace).setdefault("given", set())
        if self.dest in given:
            raise argparse.ArgumentError(self, "is given twice: give it once")
        given.add(self.dest)
        super().__call__(parser, namespace, values, option_string)


class Parser(argparse.ArgumentParser):
    """A wrong command line is one line, as of the other commands."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name in (None, "store"):
            self.register("action", name, Once)

    def error(self, message: str) -> NoReturn:
        self.exit(CANNOT_JUDGE, f"{self.prog}: {message}; see `{self.prog} --help`\n")


def parser() -> argparse.ArgumentParser:
    own = sys.argv[0] == "kbroker"  # set by `kbroker judge`
    codes = "; ".join(f"{code}: {meaning}" for code, meaning in EXIT_CODES.items())
    made = Parser(
        prog="kbroker" if own else "python -m spark_validation", description=f"Exit codes: {codes}."
    )
    commands = made.add_subparsers(dest="command", required=True)
    judge_options(
        commands.add_parser(
            "judge",
            help="judge a run by its histories and the broker's log",
            epilog="\n  ".join(("examples:", *EXAMPLES)),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
    )
    stream = commands.add_parser("stream", help="judge while the load runs; ends when the run has ended")
    evidence_options(stream)
    stream.add_argument(
        "--seconds",
        type=float,
        metavar="SECONDS",
        default=0,
        help="seconds after which to stop; 0: when the run has ended",
    )
    stream.add_argument(
        "--grace",
        type=float,
        metavar="SECONDS",
        default=60,
        help="maximum seconds between a record's histories and its copy in the log",
    )
    stream.add_argument(
        "--patience",
        type=float,
        metavar="SECONDS",
        default=600,
        help="seconds without a new record after which a run that has no end counts as killed",
    )
    stream.add_argument("--report", type=Path, help="HTML file, rewritten with every batch")
    stream.add_argument(
        "--checkpoint",
        type=Path,
        metavar="FOLDER",
        help="folder for the job's state; a restarted job continues from it",
    )
    return made


def judge_options(command: argparse.ArgumentParser) -> None:
    evidence_options(command)
    command.add_argument(
        "--earlier", metavar="DIR,...", help="log directories of an earlier copy of the log (V14)"
    )
    command.add_argument(
        "--landing",
        type=Path,
        metavar="FOLDER",
        help="folder shared by all nodes, for a Parquet copy of the log; default: Spark's scratch, if local",
    )
    command.add_argument(
        "--report", type=Path, help="HTML file to write; a JSON file with all findings is written beside it"
    )
    command.add_argument(
        "--max-visibility-ms", type=float, metavar="MS", help="V17: maximum of the p99 of the visibility lag"
    )
    command.add_argument(
        "--max-ack-ms",
        type=float,
        metavar="MS",
        help="V18: maximum of the p99 until a record is acknowledged",
    )
    command.add_argument(
        "--max-end-to-end-ms", type=float, metavar="MS", help="V18: maximum of the p99 until a record is read"
    )


def evidence_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("--history", type=Path, metavar="FOLDER", required=True, help="folder of the run")
    command.add_argument(
        "--bootstrap", metavar="HOST:PORT,...", help="read the log through Spark's Kafka connector"
    )
    command.add_argument(
        "--command-config",
        type=Path,
        metavar="FILE",
        help="with --bootstrap: file with client settings (security and others), with Java's or librdkafka's "
        "names",
    )
    command.add_argument("--segments", metavar="DIR,...", help="log directories: read their segment files")
    command.add_argument("--topics", metavar="TOPIC,...", help="judge only these topics of the run")
