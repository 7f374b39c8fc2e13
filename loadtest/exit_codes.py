"""Exit codes of `kbroker loadtest`: those of its judge, and others that no verdict has."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from typer.core import TyperGroup

from spark_validation import options as judge

CLEAN, CONVICTED, CANNOT_JUDGE = judge.CLEAN, judge.CONVICTED, judge.CANNOT_JUDGE
INTERRUPTED = judge.INTERRUPTED
WRONG_USE, NO_BROKER, FAILED = 64, 69, 74
EXIT_CODES = {
    CLEAN: "done; with --judge or --live: clean",
    CONVICTED: judge.EXIT_CODES[CONVICTED],
    CANNOT_JUDGE: "there is no verdict, or the extra is not installed",
    WRONG_USE: "the command line is wrong: nothing was started",
    NO_BROKER: "there is no broker, or it cannot be loaded",
    FAILED: "a file cannot be written or read",
    INTERRUPTED: "stopped by Ctrl-C or SIGTERM",
}


@contextmanager
def _wrong_use() -> Iterator[None]:
    """Errors of the option parser end with WRONG_USE, because their own code is a verdict's."""
    try:
        yield
    except Exception as failure:
        error: Any = failure
        if hasattr(error, "format_message"):
            error.exit_code = WRONG_USE
        raise


class Program(TyperGroup):
    """The commands of a program with these exit codes."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        with _wrong_use():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        with _wrong_use():
            return super().invoke(ctx)
