"""The `kbroker` program: runs one command line and returns its exit code.

`serve` bypasses the option parser, because modules loaded here stay in the memory of every process of the broker.
"""

import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from pathlib import Path

from kbroker.cli.bytecode import keep_bytecode
from kbroker.cli.early_stop import end_at_once_on_signals, interrupt_ends_at_once
from kbroker.cli.exit_codes import ExitCode
from kbroker.cli.serve_arguments import parse

ABOUT_FILES = ("serve", "log", "export", "backup", "backups", "restore")
"""Commands whose arguments are paths, which may be any bytes."""


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line; returns the exit code. Expected errors are printed to stderr as one
    sentence."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    keep_bytecode()
    if words[:1] == ["serve"]:
        end_at_once_on_signals()
    if words[:1] == ["serve"] and (plain := parse(words[1:])) is not None:
        return _serve(*plain)
    with interrupt_ends_at_once(ExitCode.INTERRUPTED):
        from kbroker.cli.commands import app
        from kbroker.cli.failures import CommandFailed, explain
        from kbroker.cli.output import say

    if (
        words[:1]
        and words[0] not in ABOUT_FILES
        and (wrong := [word for word in words if not _is_utf8(word)])
    ):
        say(f"kbroker: {wrong[0]!r} is not UTF-8")
        return ExitCode.USAGE
    try:
        code = int(app(args=words, prog_name="kbroker", standalone_mode=False) or ExitCode.OK)
        sys.stdout.flush()  # an error of the last flush is printed, too
        return code
    except SystemExit as end:
        return _code(end)
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except BrokenPipeError:  # the reader has closed the pipe; drop the rest of the buffer
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.FAILED
    except Exception as error:
        if _was_interrupted(error):
            if isinstance(error, CommandFailed) and error.message:  # such as records that are not written
                say(f"kbroker: {error.message}")
            return ExitCode.INTERRUPTED
        failure = explain(error)
        if failure is None:
            raise
        if failure.message:
            say(f"kbroker: {failure.message}")
        return failure.code


def _was_interrupted(error: BaseException) -> bool:
    """Whether Ctrl-C came first: a client that is closed after it may fail in many ways."""
    earlier = error.__context__
    return earlier is not None and (isinstance(earlier, KeyboardInterrupt) or _was_interrupted(earlier))


def _serve(file: Path | None, overrides: list[str], from_environment: bool) -> int:
    try:
        from kbroker.cli.serve import serve

        return serve(file, overrides, from_environment)
    except ModuleNotFoundError as missing:
        from kbroker.cli.output import say

        say(f"kbroker: {missing.name} is not installed; install kbroker again, with its dependencies")
        return ExitCode.FAILED


def _is_utf8(word: str) -> bool:
    """Names in the protocol are UTF-8; librdkafka crashes with others."""
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


def _code(end: SystemExit) -> int:
    if end.code is None:
        return ExitCode.OK
    return end.code if isinstance(end.code, int) else ExitCode.FAILED


def main() -> None:
    """Entry point of the `kbroker` command."""
    _open_standard_streams()
    sys.exit(run())


def _open_standard_streams() -> None:
    """Open streams that the caller has closed, so that no socket or log gets their numbers. A
    character that stdout's encoding lacks is printed as an escape; a byte of a path that is no
    UTF-8, as it is."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115  as long as the process
    if isinstance(sys.stdout, TextIOWrapper):
        is_utf8 = sys.stdout.encoding.lower().replace("-", "") == "utf8"
        sys.stdout.reconfigure(errors="surrogateescape" if is_utf8 else "backslashreplace")


if __name__ == "__main__":
    main()
