"""A client with the listed permissions, as guards see it."""

from types import SimpleNamespace
from typing import Any

from msgspec import Struct, field

Permission = tuple[int, int, str]
"""Operation, type of the resource, name."""


class Granted:
    """An authorizer that allows the listed permissions."""

    def __init__(self, *permissions: Permission) -> None:
        self.permissions = permissions

    def allows(self, principal: str, host: str, *permission: object) -> bool:
        return permission in self.permissions

    def allows_some(self, *_: object) -> bool:
        return False


class Context(Struct, frozen=True):
    """The part of a RequestContext that guards use."""

    broker: Any
    version: int
    narrowed: bool = False
    client: Any = field(default_factory=lambda: SimpleNamespace(principal="User:x", client_host="h"))
