"""`kbroker users`: SCRAM credentials of a running broker, or in the store of a stopped one."""

import secrets
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from kbroker.cli.connection import Connection
from kbroker.cli.failures import CommandFailed, UsageFailed, check_answer, result_of
from kbroker.cli.options import AsJson, Yes, confirm, connected, examples
from kbroker.cli.output import print_json, print_table, say
from kbroker.cli.own_kernels import use_kernels
from kbroker.cli.own_requests import ask_broker
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest

app = typer.Typer(name="users", no_args_is_help=True, help="List and change users with SCRAM credentials.")

ITERATIONS = 4096


class Mechanism(StrEnum):
    """SCRAM mechanisms."""

    SHA_256 = "SCRAM-SHA-256"
    SHA_512 = "SCRAM-SHA-512"

    @property
    def number(self) -> int:
        """The mechanism's number in the protocol."""
        return 1 if self is Mechanism.SHA_256 else 2

    @classmethod
    def of(cls, number: int) -> "Mechanism":
        """The mechanism of a number of the protocol. Raises CommandFailed."""
        for each in cls:
            if each.number == number:
                return each
        raise CommandFailed(f"the broker has credentials of mechanism {number}, which is not known here")

    @property
    def hash_name(self) -> str:
        """The hash's name in hashlib."""
        return "sha256" if self is Mechanism.SHA_256 else "sha512"


User = Annotated[str, typer.Argument(metavar="USER", show_default=False)]
Mechanisms = Annotated[
    list[Mechanism] | None,
    typer.Option("--mechanism", help="SCRAM mechanism; repeatable.", show_default="both"),
]
Offline = Annotated[
    Path | None,
    typer.Option(
        "--offline",
        metavar="SERVER.PROPERTIES",
        help="Write to the store of the stopped broker with these settings.",
    ),
]
PasswordFile = Annotated[
    Path | None,
    typer.Option(
        "--password-file",
        metavar="FILE",
        help="File whose first line is the password; - is stdin. Default: ask on the terminal.",
    ),
]


def _password(file: Path | None) -> str:
    import sys

    from kbroker.cli.input_files import first_line

    if file is None and not sys.stdin.isatty():
        raise UsageFailed("no terminal to ask for the password: give --password-file (- is stdin)")
    if file is None:
        return str(typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True))
    password = first_line(file)
    if not password:
        raise UsageFailed("the password is empty")
    return password


@app.command(
    epilog=examples(
        "kbroker users add alice",
        "echo secret | kbroker users add alice --password-file - --mechanism SCRAM-SHA-512",
        "kbroker users add admin --offline server.properties   # before the first start",
    )
)
@connected
def add(
    broker: Connection,
    user: User,
    mechanism: Mechanisms = None,
    iterations: Annotated[
        int, typer.Option(min=4096, max=16384, help="Iterations of the hash.")
    ] = ITERATIONS,
    password_file: PasswordFile = None,
    offline: Offline = None,
) -> None:
    """Set the password of a user."""
    mechanisms = mechanism or list(Mechanism)
    password = _password(password_file)
    if ":" in user:
        say(f"user {user}: HTTP Basic cannot carry a colon: no login to /metrics and the schema registry")
    if offline is not None:
        use_kernels()
        from kbroker.cli.offline_store import put_credentials

        salted = [(each.number, each.hash_name) for each in mechanisms]
        put_credentials(offline, user, password, salted, iterations)
        say(f"user {user}: stored, for the next start")
        return
    from confluent_kafka.admin import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

    changes = {
        each: UserScramCredentialUpsertion(
            user,
            ScramCredentialInfo(ScramMechanism(each.number), iterations),
            password.encode(),
            secrets.token_bytes(20),
        )
        for each in mechanisms
    }
    _alter(broker, user, changes, "set")


def _alter(broker: Connection, user: str, changes: Mapping[Mechanism, Any], verb: str) -> None:
    """Two changes of one user do not fit into one request. A refused one does not hide those that
    were made before. Raises CommandFailed."""
    done: list[str] = []
    try:
        for mechanism, change in changes.items():
            answers = broker.admin().alter_user_scram_credentials([change], request_timeout=broker.timeout_s)
            for future in answers.values():
                result_of(future, f"user {user}: {mechanism.value}")
            done.append(mechanism.value)
    finally:
        if done:
            say(f"user {user}: {', '.join(done)} {verb}")


def _described(broker: Connection) -> dict[str, dict[Mechanism, int]]:
    """Iterations of the hash, by user and mechanism.

    Not with librdkafka: it crashes if the whole request is refused (an invalid free).
    """
    request = DescribeUserScramCredentialsRequest(None)
    answer = ask_broker(broker, ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, request)
    check_answer(answer, "users")
    for each in answer.results:
        check_answer(each, f"user {each.user}")
    return {
        each.user: {Mechanism.of(one.mechanism): one.iterations for one in each.credential_infos}
        for each in answer.results
    }


@app.command("list", epilog=examples("kbroker users list", "kbroker users list --json | jq -r '.[].user'"))
@connected
def list_users(broker: Connection, json: AsJson = False) -> None:
    """List users and their mechanisms."""
    rows: list[dict[str, Any]] = [
        {
            "user": name,
            "mechanisms": [
                {"mechanism": mechanism.value, "iterations": iterations}
                for mechanism, iterations in mechanisms.items()
            ],
        }
        for name, mechanisms in sorted(_described(broker).items())
    ]
    if json:
        print_json(rows)
        return
    lines = [
        [row["user"], each["mechanism"], each["iterations"]] for row in rows for each in row["mechanisms"]
    ]
    print_table(["USER", "MECHANISM", "ITERATIONS"], lines)


@app.command(epilog=examples("kbroker users remove alice", "kbroker users remove alice --yes"))
@connected
def remove(broker: Connection, user: User, mechanism: Mechanisms = None, yes: Yes = False) -> None:
    """Remove a user's credentials: logins with them are refused."""
    from confluent_kafka.admin import ScramMechanism, UserScramCredentialDeletion

    has = _described(broker).get(user, {})
    doomed = [each for each in mechanism or list(Mechanism) if each in has]
    if not doomed:
        raise CommandFailed(f"user {user} has no such credential; `kbroker users list` shows all")
    confirm(f"Remove {', '.join(each.value for each in doomed)} of {user}?", yes)
    changes = {each: UserScramCredentialDeletion(user, ScramMechanism(each.number)) for each in doomed}
    _alter(broker, user, changes, "removed")
