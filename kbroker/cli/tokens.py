"""`kbroker tokens`: delegation tokens, as kafka-delegation-tokens.

Both client libraries lack these requests; they are sent over kafka-python's connections.
"""

import base64
import binascii
from typing import Annotated, Any

import typer

from kbroker.cli.connection import Connection
from kbroker.cli.failures import UsageFailed, broker_error
from kbroker.cli.options import AsJson, Yes, confirm, connected, examples
from kbroker.cli.output import print_json, print_table, say
from kbroker.cli.own_requests import ask_broker
from kbroker.cli.points_in_time import format_time, parse_duration_ms
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from kbroker.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from kbroker.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kbroker.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from kbroker.protocol.schema import Struct

app = typer.Typer(
    name="tokens",
    no_args_is_help=True,
    help="Create, renew, expire and list delegation tokens. Programs log in with them on behalf of a user.",
)

SUBJECT = "delegation token"
HEADERS = ("ID", "OWNER", "REQUESTER", "RENEWERS", "ISSUED", "EXPIRES", "ENDS", "HMAC")

Hmac = Annotated[
    str,
    typer.Argument(
        metavar="HMAC", help="The token's HMAC, as `create` and `describe` print it.", show_default=False
    ),
]
Owners = Annotated[
    list[str] | None,
    typer.Option(
        "--owner", metavar="User:NAME", help="Only tokens of this owner; repeatable.", show_default="all"
    ),
]


def _principal(text: str) -> tuple[str, str]:
    kind, colon, name = text.partition(":")
    if not (kind and colon and name):
        raise UsageFailed(f"{text!r} is not a principal: expected User:NAME")
    return kind, name


def _hmac(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise UsageFailed("HMAC is not base64: copy it as `create` and `describe` show it") from None


def _ask(broker: Connection, api: ApiKey, request: Struct) -> Any:
    answer = ask_broker(broker, api, request)
    if answer.error_code:
        raise broker_error(answer.error_code, subject=SUBJECT)
    return answer


def _row(token: Any) -> dict[str, Any]:
    """A token of either answer; the answers have different names for the times."""
    times = {
        name: getattr(token, f"{name}_timestamp_ms", getattr(token, f"{name}_timestamp", None))
        for name in ("issue", "expiry", "max")
    }
    return {
        "id": token.token_id,
        "owner": f"{token.principal_type}:{token.principal_name}",
        "requester": f"{token.token_requester_principal_type}:{token.token_requester_principal_name}",
        "renewers": [f"{one.principal_type}:{one.principal_name}" for one in getattr(token, "renewers", ())],
        **{f"{name}_ms": time_ms for name, time_ms in times.items()},
        "hmac": base64.b64encode(token.hmac).decode(),
    }


def _cells(row: dict[str, Any]) -> list[Any]:
    times = [format_time(row[name]) for name in ("issue_ms", "expiry_ms", "max_ms")]
    return [row["id"], row["owner"], row["requester"], ",".join(row["renewers"]) or None, *times, row["hmac"]]


@app.command(
    epilog=examples(
        "# the token is the logged-in user's",
        "kbroker tokens create --command-config alice.properties --renewer User:scheduler --json | jq -r .hmac",
    )
)
@connected
def create(
    broker: Connection,
    owner: Annotated[
        str | None, typer.Option(metavar="User:NAME", help="Owner of the token.", show_default="yourself")
    ] = None,
    renewer: Annotated[
        list[str] | None, typer.Option(metavar="User:NAME", help="Another user who may renew it; repeatable.")
    ] = None,
    lifetime: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION", help="Maximum lifetime, with renewals.", show_default="the broker's maximum"
        ),
    ] = None,
    json: AsJson = False,
) -> None:
    """Create a token. A program logs in by SCRAM with its id as the user name and its HMAC as the
    password."""
    kind, name = (None, None) if owner is None else _principal(owner)
    renewers = [CreatableRenewers(*_principal(one)) for one in renewer or ()]
    lifetime_ms = -1 if lifetime is None else parse_duration_ms(lifetime)
    request = CreateDelegationTokenRequest(kind, name, renewers, lifetime_ms)
    row = _row(_ask(broker, ApiKey.CREATE_DELEGATION_TOKEN, request))
    row["renewers"] = renewer or []
    if json:
        print_json(row)
    else:
        print_table(HEADERS, [_cells(row)])


@app.command(epilog=examples('kbroker tokens renew "$HMAC" --for 12h --command-config alice.properties'))
@connected
def renew(
    broker: Connection,
    hmac: Hmac,
    period: Annotated[
        str | None,
        typer.Option(
            "--for",
            metavar="DURATION",
            help="New time until it expires.",
            show_default="the broker's maximum",
        ),
    ] = None,
) -> None:
    """Extend the expiry of a token."""
    period_ms = -1 if period is None else parse_duration_ms(period)
    answer = _ask(broker, ApiKey.RENEW_DELEGATION_TOKEN, RenewDelegationTokenRequest(_hmac(hmac), period_ms))
    say(f"{SUBJECT}: expires at {format_time(answer.expiry_timestamp_ms)}")


@app.command(
    epilog=examples(
        'kbroker tokens expire "$HMAC" --in 10m --command-config alice.properties',
        'kbroker tokens expire "$HMAC" --yes --command-config alice.properties',
    )
)
@connected
def expire(
    broker: Connection,
    hmac: Hmac,
    period: Annotated[
        str | None,
        typer.Option("--in", metavar="DURATION", help="Time until it expires.", show_default="now"),
    ] = None,
    yes: Yes = False,
) -> None:
    """Expire a token: logins with it are refused. Without --in it asks for confirmation."""
    period_ms = -1 if period is None else parse_duration_ms(period)
    request = ExpireDelegationTokenRequest(_hmac(hmac), period_ms)
    if period is None:
        confirm(f"End the {SUBJECT} now?", yes)
    answer = _ask(broker, ApiKey.EXPIRE_DELEGATION_TOKEN, request)
    if period is None:
        say(f"{SUBJECT}: ended")
    else:
        say(f"{SUBJECT}: expires at {format_time(answer.expiry_timestamp_ms)}")


@app.command(epilog=examples("kbroker tokens describe --owner User:alice --command-config alice.properties"))
@connected
def describe(broker: Connection, owner: Owners = None, json: AsJson = False) -> None:
    """List the tokens that you may see, with their HMACs."""
    owners = None if not owner else [DescribeDelegationTokenOwner(*_principal(one)) for one in owner]
    answer = _ask(broker, ApiKey.DESCRIBE_DELEGATION_TOKEN, DescribeDelegationTokenRequest(owners))
    rows = sorted((_row(token) for token in answer.tokens), key=lambda row: (row["owner"], row["issue_ms"]))
    if json:
        print_json(rows)
    else:
        print_table(HEADERS, [_cells(row) for row in rows])
