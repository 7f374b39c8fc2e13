"""Random command lines from the tree of commands: options in any number and order, with values of
their type, at its edges, and odd ones."""

import argparse
from collections.abc import Iterator
from importlib import import_module
from random import Random
from types import SimpleNamespace
from typing import Any

import typer

from kbroker.cli.commands import application
from kbroker.cli.docs import JUDGE, PROGRAMS

CLOSED = "127.0.0.1:1"
"""No broker listens there."""
NO_OTHER = "127.0.0.1:2"
"""No second cluster either."""
LONG = ("serve", "tune bench", "tune verify", "loadtest run", "loadtest overhead", "judge")
"""Commands that run until they are stopped, load the host or start other programs: each of their
lines has something wrong."""
FIXED = {
    "top --url": f"http://{CLOSED}/",
    "move --to": NO_OTHER,
    "import --from": NO_OTHER,
    "tune check --metrics": CLOSED,
    "tune propose --metrics": CLOSED,
    "tune script --metrics": CLOSED,
    "tune size --metrics": CLOSED,
    "tune check --watch": "0",
}
"""Values that decide which broker is asked, and for how long."""
ODD = (
    "", " ", "-", "--", "-1", "0", "1", "²", "🙂", "\udcff", "a" * 300, "9" * 30, "9" * 5000, "nan", "-inf", "1e999",
    "t:0:1", "t:0-5", "t:5-1", "t:", ":", "t", "t:0,1:9", "key=value", "=", "=v", "k=", "a=b=c", "a=[b,c]", "%", "%s",
    "{", "[", "[a", "(", "(a|b)*", "\\", "\\q", "\n", "\t", "*", "User:alice", "User:", "User:*", "1d", "-1d", "1h30m",
    "yesterday", "now", "2020-01-01", "2020-02-30T25:00", "earliest", "latest", "127.0.0.1", "::1", "http://127.0.0.1:1/",
    "http://[", "s3://", "s3://a", "producer_byte_rate", "producer_byte_rate=1", "SCRAM-SHA-256", "all", "none", "1,2",
    "1,,2", "0:1,2:1", "..", "a/b", "no-such-file", "text", "bytes", "empty", "folder", "null", "true", "[]", "{}",
)  # fmt: skip


def commands() -> dict[str, Any]:
    """Each command by its words."""

    def walk(command: Any, *words: str) -> Iterator[tuple[str, Any]]:
        for name, inner in getattr(command, "commands", {}).items():
            if name in PROGRAMS:
                inner = typer.main.get_command(import_module(PROGRAMS[name]).app)
            if hasattr(inner, "commands"):
                yield from walk(inner, *words, name)
            else:
                yield " ".join((*words, name)), inner

    return dict(walk(typer.main.get_command(application()))) | {"judge": judge()}


def judge() -> Any:
    """The judge's options, as those of the other parser."""
    made: Any = argparse.ArgumentParser(add_help=False)
    import_module(JUDGE).judge_options(made)
    params = [
        SimpleNamespace(
            opts=action.option_strings, secondary_opts=[], nargs=1, is_flag=False, required=action.required,
            type=SimpleNamespace(name=getattr(action.type, "__name__", "text").lower()),
        )
        for action in made._actions
    ]  # fmt: skip
    return SimpleNamespace(params=params)


def line(name: str, command: Any, chance: Random) -> list[str]:
    """One command line, without a broker."""
    options: list[list[str]] = [fault(name, command, chance)] if name in LONG else []
    places: list[str] = []
    for parameter in command.params:
        known = FIXED.get(f"{name} {parameter.opts[0]}")
        if parameter.opts == ["--timeout"]:
            options.append(["--timeout", "0.2"])
        elif known is not None:
            options.append([parameter.opts[0], known])
        elif "--bootstrap" in parameter.opts or "--help" in parameter.opts:
            continue
        elif not parameter.opts[0].startswith("-"):
            count = chance.choice((0, 1, 1, 1, 2)) if parameter.nargs == -1 else chance.random() < 0.95
            places += [value(parameter, chance) for _ in range(count)]
        elif parameter.required or chance.random() < 3 / len(command.params):
            for _ in range(1 + (chance.random() < 0.2)):
                name_of = chance.choice([*parameter.opts, *parameter.secondary_opts])
                options.append([name_of] if parameter.is_flag else [name_of, value(parameter, chance)])
    chance.shuffle(options)
    words = [word for option in options for word in option]
    return [*name.split(), *words, *places] if chance.random() < 0.5 else [*name.split(), *places, *words]


def fault(name: str, command: Any, chance: Random) -> list[str]:
    """Words with which no line of a command begins its work."""
    if name == "serve":  # whose arguments have a reader of their own
        return chance.choice((["--override", "num.partitions=three"], ["--override=num.partitions=-1"]))
    numbers = [
        [option.opts[0], "many"] for option in command.params if option.type.name.startswith(("int", "float"))
    ]
    return chance.choice((["--no-such-option"], ["--no-such-option=1"], *numbers))


def value(parameter: Any, chance: Random) -> str:
    """A value for a parameter."""
    kind = parameter.type
    if chance.random() < 0.4:
        return chance.choice(ODD)
    if choices := getattr(kind, "choices", ()):
        return str(chance.choice(choices))
    if kind.name.startswith(("int", "float")):
        low, high = getattr(kind, "min", None) or 0, getattr(kind, "max", None) or 2**31 - 1
        return str(chance.choice((low, low - 1, high, high + 1, low + 1, low + 7)))
    if kind.name == "path":
        return chance.choice(("text", "bytes", "empty", "folder", "no-such-file", "new"))
    return chance.choice(
        ("t", "orders", "g:0", "t:0", "key=value", "1d", "0", "User:alice", "earliest", *ODD)
    )
