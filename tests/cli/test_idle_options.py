"""An option that would have no effect is refused by name, before anything is sent."""

from typing import Any

import pytest
import typer

from kbroker.cli.commands import application
from kbroker.cli.exit_codes import ExitCode
from kbroker.cli.idle_options import IDLE_BESIDE, IDLE_WITHOUT
from loadtest.single_values import name_of
from tests.cli.conftest import Shell

CLOSED = "127.0.0.1:1"
REFUSED = [
    (
        "consume t --json --separator X",
        "--json does not allow --separator: it would have no effect; see `kbroker",
    ),
    ("consume t --json -D X", "--json does not allow --delimiter"),
    ("consume t --separator X -D X --json", "--json does not allow --separator and --delimiter: they would"),
    ("consume t -f %s --print-key", "--format does not allow --print-key"),
    ("consume t -f %s --separator X", "--format does not allow --separator"),
    ("consume t --exact-count --print-offset", "--exact-count does not allow --print-offset"),
    ("consume t --exact-count --registry http://h:1", "--exact-count does not allow --registry"),
    ("consume t --group-protocol consumer", "--group-protocol needs --group"),
    ("groups remove-members g --all --member m", "--all does not allow --member"),
    ("groups remove-members g --all --instance i --yes", "--all does not allow --instance"),
    ("groups reset-offsets g --all-topics --to-latest --export --json", "--export does not allow --json"),
    ("topics copy a b --validate-only --records", "--validate-only does not allow --records"),
    ("log dump x --no-decode", "--no-decode needs --print-data-log or --deep: it would have no effect"),
    ("top --once --interval 2", "--once does not allow --interval"),
    ("users add x --offline f -b h:1", "--offline does not allow --bootstrap"),
    ("users add x --offline f --command-config c", "--offline does not allow --command-config"),
    ("acls add --principal User:a --cluster --prefixed -o alter", "--prefixed needs the beginning of names"),
    ("acls remove --principal User:a --prefixed --yes", "--prefixed needs the beginning of names"),
    ("acls remove --principal User:a --prefixed --cluster --yes", "--prefixed needs the beginning of names"),
    (
        "acls add --principal User:a --producer --topic t --group g",
        "--group would have no effect with --producer: leave it out",
    ),
    (
        "acls add --principal User:a --producer --consumer --topic t --group g --cluster",
        "--cluster would have no effect with --producer and --consumer",
    ),
]
ALLOWED = [
    "consume t --json --print-key",  # the documents have it
    "consume t --print-key --separator X -D X",
    "consume t -g g --group-protocol consumer",
    "consume t --exact-count --json",
    "groups reset-offsets g --all-topics --to-latest --export --execute",
    "acls remove --topic t --prefixed --yes",
    "acls add --principal User:a --topic t --prefixed --cluster -o describe",
    "acls add --principal User:a --producer --topic t --cluster -o describe",
]


@pytest.mark.parametrize(("line", "part"), REFUSED)
def test_an_option_without_effect_is_refused(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, line: str, part: str
) -> None:
    monkeypatch.setenv("KBROKER_BOOTSTRAP", CLOSED)
    (reason,) = shell(*line.split(), code=ExitCode.USAGE).stderr.splitlines()
    assert reason.startswith("kbroker: ")
    assert part in reason


@pytest.mark.parametrize("line", ALLOWED)
def test_an_option_with_an_effect_is_allowed(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    monkeypatch.setenv("KBROKER_BOOTSTRAP", CLOSED)
    assert "cannot connect" in shell(*line.split(), code=ExitCode.UNREACHABLE).stderr


def test_a_bootstrap_address_of_the_environment_is_not_refused(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.setenv("KBROKER_BOOTSTRAP", CLOSED)
    done = shell(
        "users", "add", "x", "--offline", f"{tmp_path}/none", "--password-file", "-", stdin=b"a\n", code=2
    )
    assert "No such file" in done.stderr


def test_every_option_of_the_tables_exists() -> None:
    root: Any = typer.main.get_command(application())
    for table in (IDLE_BESIDE, IDLE_WITHOUT):
        for path, rows in table.items():
            command = root
            for word in path.split():
                command = command.commands[word]
            known = {name_of(each) for each in command.params if each.param_type_name == "option"}
            named = set(rows) | {other for others in rows.values() for other in _names(others)}
            assert named <= known, path


def _names(others: object) -> list[str]:
    return [others] if isinstance(others, str) else list(others)  # type: ignore[call-overload]
