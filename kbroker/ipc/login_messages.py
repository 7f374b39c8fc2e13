"""Messages of logins, from network processes to control.

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


class AttemptLogin(Struct, frozen=True, array_like=True, tag=True):
    """A client sends a password. Called; replied with the seconds until it is checked; None when it
    is refused unchecked, because too many wait already."""

    host: str
    user: str


class LoginSucceeded(Struct, frozen=True, array_like=True, tag=True):
    """The password of the attempt was right. Sent."""

    host: str
    user: str
