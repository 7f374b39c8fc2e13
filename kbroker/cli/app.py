"""The `kbroker` program: runs one command line and returns its exit code.

`serve` bypasses the option parser, because modules loaded here stay in the memory of every process of the broker.
"""

import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path

from kbroker.cli.bytecode import keep_bytecode
from kbroker.cli.exit_codes import ExitCode

ABOUT_FILES = ("serve", "log", "export", "backup", "backups", "restore")
"""Commands whose arguments are paths, which may be any bytes."""

NEW_OBJECTS = 20_000
"""Objects after which this program searches for garbage. Imports make many objects and no garbage,
and with Python's own threshold the searches take a tenth of a short command's time."""

_SECRET = r"((?:password|secret|jaas\.config|ssl\.key|keystore\.key)[^=\s]*\s*=).+"
_LOGIN = r"(://)[^/?#\s]*@"
WIDTHS = ("COLUMNS", "TERMINAL_WIDTH")
"""Variables with the width of the terminal."""


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line; returns the exit code. Expected errors are printed to stderr as one
    sentence."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    keep_bytecode()
    if words[:1] == ["serve"]:
        for number in (signal.SIGTERM, signal.SIGINT):  # it has no children, log dirs or clients yet
            signal.signal(number, lambda *_: os._exit(0))
        if (plain := serve_arguments(words[1:])) is not None:
            return _serve(*plain)
    if arguments is None:
        _hide_secrets(words)
    _forget_wrong_widths()
    with _interrupt_ends_at_once():
        from kbroker.cli.commands import application
        from kbroker.cli.failures import CommandFailed, explain
        from kbroker.cli.output import say

        app = application(*words[:1])
    if (
        words[:1]
        and words[0] not in ABOUT_FILES
        and (wrong := [word for word in words if not _is_utf8(word)])
    ):
        say(f"kbroker: {wrong[0]!r} is not UTF-8")
        return ExitCode.USAGE
    try:
        code = _code_of(app, words)
        sys.stdout.flush()  # an error of the last flush is printed, too
        return code
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except BrokenPipeError:  # the reader has closed the pipe
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
    finally:
        _drop_unwritten()


def _hide_secrets(words: Sequence[str]) -> None:
    """Hide passwords of the command line from other users of the host, as `serve` does: those of
    settings, as in `-X sasl.password=...`, and of URLs."""
    if not any("=" in word or "@" in word for word in words):
        return
    import re

    secret = re.compile(_SECRET, re.IGNORECASE | re.DOTALL)
    shown = [re.sub(_LOGIN, r"\1[hidden]@", secret.sub(r"\1[hidden]", word)) for word in words]
    if shown != list(words):
        import setproctitle

        title = " ".join([sys.executable, sys.argv[0], *shown])
        setproctitle.setproctitle(title.encode(errors="replace").decode())


def _code_of(app: Callable[..., object], words: Sequence[str]) -> int:
    try:
        code = app(args=words, prog_name="kbroker", standalone_mode=False)
        return code if isinstance(code, int) else ExitCode.OK
    except SystemExit as end:
        return _code(end)


def _drop_unwritten() -> None:
    """Drop output that cannot be written: the interpreter would write it once more at its end, and
    fail with a code and lines of its own."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _forget_wrong_widths() -> None:
    """The libraries that print --help leave it empty at a width of 0, and fail at one that is no
    number; without these variables they find the width of the terminal."""
    for name in WIDTHS:
        width = os.environ.get(name, "")
        if width and not (width.isdecimal() and len(width) < 6 and int(width)):
            del os.environ[name]


def _was_interrupted(error: BaseException) -> bool:
    """Whether Ctrl-C came first: a client that is closed after it may fail in many ways."""
    earlier = error.__context__
    return earlier is not None and (isinstance(earlier, KeyboardInterrupt) or _was_interrupted(earlier))


@contextmanager
def _interrupt_ends_at_once() -> Iterator[None]:
    """Ctrl-C ends this process, unless it is ignored. Nothing has begun yet, and an exception amid
    imports would be a traceback."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, lambda *_: os._exit(ExitCode.INTERRUPTED))
    yield
    signal.signal(signal.SIGINT, signal.default_int_handler)


def serve_arguments(words: Sequence[str]) -> tuple[Path | None, list[str], bool] | None:
    """(server.properties, overrides, --environment) of a plain command line; None for anything that
    the option parser must judge: --help, unknown options, a second file, a missing value."""
    file: Path | None = None
    environment = False
    overrides: list[str] = []
    rest = iter(words)
    for word in rest:
        if word.startswith("--override="):
            overrides.append(word.removeprefix("--override="))
        elif word == "--override":
            value = next(rest, None)
            if value is None:
                return None
            overrides.append(value)
        elif word == "--environment":
            environment = True
        elif word.startswith("-") or file is not None:
            return None
        else:
            file = Path(word)
    return file, overrides, environment


def _serve(file: Path | None, overrides: list[str], from_environment: bool) -> int:
    gc.disable()  # until the supervisor has its children: imports leave no garbage, and collections take long
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
    gc.set_threshold(NEW_OBJECTS)
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
