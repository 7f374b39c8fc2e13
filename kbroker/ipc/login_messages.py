"""Messages of logins, from network processes and the http process to control.

Part of the contract in `messages.py`.
"""

from typing import NamedTuple

from msgspec import Struct

from kbroker.ipc.messages import ScramCredential


class FindScramCredential(Struct, frozen=True, array_like=True, tag=True):
    """A client logs in with SCRAM. Called; replied with a ScramCredential, that of a
    user that does not exist fits no password.

    mechanism: 1 is SCRAM-SHA-256, 2 is SCRAM-SHA-512."""

    user: str
    mechanism: int


class FindTokenCredential(Struct, frozen=True, array_like=True, tag=True):
    """A client logs in with SCRAM by a delegation token. Called; replied with a TokenCredential;
    that of a token that is not in force fits no password.

    mechanism: as of FindScramCredential."""

    token_id: str
    mechanism: int


class TokenCredential(NamedTuple):
    """The credential with which a login by a delegation token is checked. owner: name of the
    principal that the client becomes. expiry_ms: of the token, in ms since 1970."""

    credential: ScramCredential
    owner: str
    expiry_ms: int


class LoginTurn(NamedTuple):
    """Reply to an AttemptLogin. wait_s: seconds until the password is checked; None: it is refused
    unchecked, because too many wait already. host: the address that the attempt counts for."""

    wait_s: float | None
    host: str


class AttemptLogin(Struct, frozen=True, array_like=True, tag=True):
    """A client sends a password. Called; replied with a LoginTurn.

    listener, host, port: of its connection."""

    listener: str
    host: str
    port: int
    user: str


class LoginSucceeded(Struct, frozen=True, array_like=True, tag=True):
    """The password of the attempt was right. Sent. host: of its LoginTurn."""

    host: str
    user: str


class LoginForClient(Struct, frozen=True, array_like=True, tag=True):
    """The http process is about to log in for one of its own clients. Called; replied with the
    number of the mechanism by which the user logs in.

    listener, host, port: of its connection to the broker. client: address of the client.
    mechanisms: those to choose from, the preferred ones first."""

    listener: str
    host: str
    port: int
    client: str
    user: str
    mechanisms: tuple[int, ...]
