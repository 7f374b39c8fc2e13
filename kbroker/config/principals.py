"""Principals as Kafka writes them: a type and a name, ``User:alice``."""

from hashlib import sha256
from typing import Final

USER: Final = "User"
"""The type of every principal that logs in."""
ANONYMOUS: Final = "ANONYMOUS"
"""The name of a client that has not logged in."""
EVERYBODY: Final = "User:*"
"""The principal of ACLs for all; in the audit log, of several clients."""

MAX_NAME: Final = 128
"""Characters of a name that is kept as it is (`kept_name`)."""


def user_principal(name: str) -> str:
    """The principal of a user."""
    return f"{USER}:{name}"


def parts_of(principal: str) -> tuple[str, str]:
    """Type and name of a principal."""
    kind, _, name = principal.partition(":")
    return kind, name


def name_of(principal: str) -> str:
    """The name of a principal without its type."""
    return parts_of(principal)[1]


def kept_name(name: str) -> str:
    """A key for the name of a user or a client id, which a client may invent: of a long one, its
    hash."""
    return name if len(name) <= MAX_NAME else sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
