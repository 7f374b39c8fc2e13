"""Generates docs/cli.md from the commands."""

import argparse
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import typer.main

from kbroker.cli.commands import application
from kbroker.cli.exit_codes import ExitCode
from kbroker.cli.help_text import argument_name
from kbroker.cli.options import PANEL
from kbroker.cli.record_format import FORMAT_HELP

PROGRAMS = {"tune": "tuning.cli", "loadtest": "loadtest.cli"}
PLACEHOLDERS = {"int": "N", "float": "NUMBER", "path": "FILE"}
"""Placeholder of a value, by the parser's name of its type."""
JUDGE = "spark_validation.options"
WITH_CODES_OF_THEIR_OWN = {"tune": "tuning.cli", "loadtest": "loadtest.exit_codes", "judge": JUDGE}

_INTRO = """\
# The kbroker command

Look up a command, its options, examples and exit codes; `kbroker COMMAND --help` shows the same. Generated
from the commands by `make docs`; do not edit.

After `make run` or `make test` the command is at `.venv/bin/kbroker`. The commands for records and
administration are clients that use librdkafka and kafka-python: they also work with Apache Kafka.

- Results go to stdout, remarks and errors to stderr. Commands whose result a script may need have
  `--json`: one document, or one line for each record or item (`consume`, `log dump`).
- Long operations show a progress bar on stderr if it is a terminal.
- Commands that delete something of the broker, or backups, ask for confirmation; if stdin is not a
  terminal, they require `--yes`. `tokens expire --in` does not ask.
- Times: `2026-01-31T12:00:00+01:00` (UTC without a zone), `2026-01-31`, milliseconds since 1970, `now`, or
  an age such as `90s`, `15m`, `2h`, `7d`.
- An option that takes one value is given once: a second value is refused. Options whose help says
  `repeatable` take several.
- An option that would have no effect beside another one is refused: `consume --json --separator :`.
- Partitions: `orders` means all of a topic, `orders:0,3-5` some.
- `kbroker --install-completion` makes your shell (bash, zsh or fish) complete commands, options, the names of
  settings, and the names of topics and groups, which it gets from the broker.
"""


def page() -> str:
    """The text of docs/cli.md."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    root: Any = typer.main.get_command(application())
    yield _INTRO
    yield "## Exit codes\n"
    yield "| code | meaning |\n|---|---|"
    yield from (f"| {code.value} | {code.meaning} |" for code in ExitCode)
    yield from _codes_of_tools()
    yield "\n`serve` ends with 0 after an orderly stop, 1 when it could not start or stop, 2 for bad settings.\n"
    yield "## Connection\n"
    yield "Every command that talks to a broker takes these:\n"
    sample: Any = root.commands["offsets"]
    yield from _table([p for p in _options(sample) if p.rich_help_panel == PANEL])
    yield """
The address is that of `--bootstrap`, else of `KBROKER_BOOTSTRAP`, else of `bootstrap.servers` in the
`--command-config` file.
That file may use librdkafka's names and, of those of Java's clients, `security.protocol`, `sasl.mechanism`,
`sasl.jaas.config` and the PEM
forms of `ssl.truststore.location` and `ssl.keystore.location`. Commands whose requests librdkafka lacks, such as
`groups` and `quotas`, log in with PLAIN and SCRAM only.
"""
    for name, command in root.commands.items():
        inner = _commands_of(name, command)
        if inner:
            yield f"## kbroker {name}\n"
            yield _flowing(command.help or "") + "\n"
            for each, leaf in inner.items():
                yield from _command(f"kbroker {name} {each}", leaf, "###")
        else:
            yield from _command(f"kbroker {name}", command, "##")


def _codes_of_tools() -> Iterator[str]:
    yield "\n`tune`, `loadtest` and `judge` have codes of their own:\n"
    yield "| command | code | meaning |\n|---|---|---|"
    for name, module in WITH_CODES_OF_THEIR_OWN.items():
        codes: dict[int, str] = import_module(module).EXIT_CODES
        yield from (f"| `{name}` | {code} | {_cell(meaning)} |" for code, meaning in codes.items())


def _commands_of(name: str, command: Any) -> dict[str, Any]:
    """The commands of a group, also of a program that is only imported when it is used; none of a
    command."""
    if name in PROGRAMS:
        command = typer.main.get_command(import_module(PROGRAMS[name]).app)
    return dict(getattr(command, "commands", {}))


def _command(name: str, command: Any, heading: str) -> Iterator[str]:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    usage = " ".join([name, "[OPTIONS]", *(_metavar(argument) for argument in arguments)])
    yield f"{heading} {name}\n"
    yield _flowing(command.help or "") + "\n"
    yield f"    {usage}\n"
    explained = [argument for argument in arguments if argument.help]
    options = [p for p in _options(command) if p.rich_help_panel != PANEL]
    if explained or options:
        yield from _table([*explained, *options])
        yield ""
    if name == "kbroker judge":
        yield from _judge_table()
        yield "\nExamples:\n"
        yield from (f"    {line}" for line in import_module(JUDGE).EXAMPLES)
        yield ""
    if command.epilog:
        yield "Examples:\n"
        yield from (f"    {line.strip()}" for line in _plain(command.epilog).splitlines()[1:])
        yield ""


def _flowing(text: str) -> str:
    """Paragraphs without the line breaks of their source; lists keep theirs."""
    paragraphs = _plain(text).split("\n\n")
    return "\n\n".join(p if "\n- " in p else " ".join(p.split("\n")) for p in paragraphs)


def _options(command: Any) -> list[Any]:
    return [
        p for p in command.params if p.param_type_name == "option" and not p.hidden and "--help" not in p.opts
    ]


def _table(parameters: list[Any]) -> Iterator[str]:
    yield "| option | what it does | default |\n|---|---|---|"
    for parameter in parameters:
        if parameter.param_type_name == "argument":
            names = f"`{_metavar(parameter)}`"
        else:
            spelled = [*parameter.opts, *parameter.secondary_opts]
            if not parameter.is_flag:
                spelled[-1] += f" {_metavar(parameter)}"
            names = ", ".join(f"`{name}`" for name in spelled)
        text = _plain(parameter.help or "")
        if choices := _choices(parameter):
            text += f" One of {', '.join(f'`{choice}`' for choice in choices)}."
        yield f"| {names} | {_cell(text)} | {_cell(_default(parameter))} |"


def _judge_table() -> Iterator[str]:
    """The options of the judge, whose parser is argparse's."""
    made: Any = argparse.ArgumentParser(add_help=False)
    import_module(JUDGE).judge_options(made)
    yield "| option | what it does |\n|---|---|"
    for action in made._actions:
        metavar = action.metavar or {float: "NUMBER", Path: "FILE"}.get(action.type, "TEXT")
        yield f"| `{action.option_strings[0]} {metavar}` | {_cell(action.help)} |"


def _metavar(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return argument_name(parameter)
    if parameter.metavar:
        return str(parameter.metavar)
    if _choices(parameter):
        return "WORD"
    return PLACEHOLDERS.get(parameter.type.name.removesuffix(" range"), "TEXT")


def _choices(parameter: Any) -> list[str]:
    return [*getattr(parameter.type, "choices", ())]


def _default(parameter: Any) -> str:
    if isinstance(parameter.show_default, str):
        return parameter.show_default
    if (
        parameter.required
        or parameter.default is None
        or parameter.default is False
        or parameter.default in ([], "")
    ):
        return ""
    return "yes" if parameter.default is True else f"`{_value(parameter.default)}`"


def _value(value: Any) -> str:
    return str(getattr(value, "value", value))


def _cell(text: str) -> str:
    return text.replace(FORMAT_HELP, f"`{FORMAT_HELP}`").replace("|", "\\|").replace("\n", " ")


def _plain(text: str) -> str:
    """Text without Rich's markup."""
    return re.sub(r"\[/?(bold|dim)\]", "", text).replace("\\[", "[").strip()
