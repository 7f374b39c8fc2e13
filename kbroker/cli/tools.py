"""Programs of this package that use the broker as clients: tuner, load test, judge."""

import sys
from importlib import import_module
from typing import Any

import typer

from kbroker.cli.failures import UsageFailed


def _program(module: str, extra: str | None = None) -> Any:
    """Import the program's module. extra: of this package, with what it needs. Raises UsageFailed
    if its packages are missing."""
    try:
        return import_module(module)
    except ModuleNotFoundError as missing:
        remedy = (
            f"try: pip install 'kbroker[{extra}]'"
            if extra
            else "install kbroker again, with its dependencies"
        )
        raise UsageFailed(f"{missing.name} is not installed; {remedy}") from missing


def _run(program: Any, context: typer.Context, name: str) -> None:
    """As a command of this program, whose errors are one line."""
    code = program.app(args=context.args, prog_name=name, standalone_mode=False)
    raise typer.Exit(code if isinstance(code, int) else 0)


def tune(context: typer.Context) -> None:
    """Check this host, size a workload, print a script of fixes, verify the advice:
    `kbroker tune --help` (`kbroker docs tuning`)."""
    _run(_program("tuning.cli"), context, "kbroker tune")


def loadtest(context: typer.Context) -> None:
    """Load a broker and record what it acknowledged: `kbroker loadtest --help`
    (`kbroker docs loadtest`). Needs the extra `loadtest`."""
    program = _program("loadtest.cli", "loadtest")
    _give_reader()
    _run(program, context, "kbroker loadtest")


def _give_reader() -> None:
    """The reader of a --command-config file, for programs that share no code with the broker."""
    from kbroker.cli import load_settings
    from loadtest.client_settings import readers

    readers[:] = [load_settings.read]


def judge(context: typer.Context) -> None:
    """Check whether records of a load test were lost or repeated: `kbroker judge --help`
    (`kbroker docs validation`). Needs Java and the extra `judge`."""
    sys.argv[0] = "kbroker"
    program = _program("spark_validation.cli", "judge")
    _give_reader()
    raise typer.Exit(program.main(["judge", *context.args]))
