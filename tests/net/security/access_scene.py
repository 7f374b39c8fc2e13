"""The permissions of a network process without one: its connections, and topics by name."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from kbroker.config import acls
from kbroker.config.acls import Acl
from kbroker.config.broker import BrokerConfig
from kbroker.ipc.messages import AclDelta
from kbroker.net.rows import Connection as ConnectionRow
from kbroker.net.security.access import Access
from kbroker.net.security.grant import Grant

SETTINGS = {
    "log.dirs": "/d",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:root",
    "kbroker.audit.log.dir": "/audit",
}
ARENA = b"mine-other"


class Scene:
    """A network process with a topic "t" in row 0, and its connections."""

    def __init__(self, **settings: str) -> None:
        self.rows = ConnectionRow.table(32)
        self.scopes: list[tuple[int, int]] = []
        self.forgotten = 0
        self.cleared: list[int] = []
        self.connections: dict[int, Any] = {}
        self.topics = SimpleNamespace(rows={"t": 0}, capacity=8, name_at=lambda number: "tuv"[number])
        process: Any = SimpleNamespace(
            tables=SimpleNamespace(connections=self.rows, arena_bytes=np.frombuffer(ARENA, np.uint8)),
            topics=self.topics,
            connections=self.connections,
            forwarding=SimpleNamespace(know=self._know, forget_answers=self._forget_answers),
            checks=SimpleNamespace(),
            answers=SimpleNamespace(clear_busy=self.cleared.append),
        )
        self.access = Access(process, BrokerConfig({**SETTINGS, **settings}))
        self.refusals: list[tuple[Any, ...]] = []
        self.access.audit.refused = lambda *each: self.refusals.append(each[1:])  # type: ignore[method-assign]

    def _know(self, connection: Any) -> None:
        self.scopes.append((connection.row, connection.answer_scope))

    def _forget_answers(self) -> None:
        self.forgotten += 1

    @property
    def grants(self) -> dict[tuple[str, str | None], Grant]:
        return self.access._grants

    def connect(self, principal: str, host: str = "10.0.0.1") -> Any:
        row = len(self.connections) + 1
        made = SimpleNamespace(
            row=row, principal=principal, accepted=SimpleNamespace(host=host), grant=None, access=None,
            answer_scope=0,
        )  # fmt: skip
        self.connections[row] = made
        self.access.know(made)
        return made

    def change(self, *added: Acl, removed: tuple[Acl, ...] = (), full: bool = False) -> None:
        self.access.change(AclDelta(added, removed), full)


def acl(
    principal: str, operation: int = acls.WRITE, name: str = "t", kind: int = acls.TOPIC, host: str = "*"
) -> Acl:
    return Acl(kind, name, acls.LITERAL, principal, host, operation, acls.ALLOW)


def bits(connection: Any, row: int = 0) -> int:
    return int(connection.grant.bits[row])
