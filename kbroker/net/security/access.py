"""Permissions of connections, as the kernels look them up: one byte per topic for each principal
and host.

Control sends ACLs with its images. The bytes are computed here once for each principal (and host,
where ACLs name it), and again when its ACLs or the topics change. Without an authorizer the tables
do not exist: the row has ACCESS 0.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from kbroker.config import acls
from kbroker.config.acls import Acl
from kbroker.config.authorizer import Authorizer
from kbroker.config.broker import BrokerConfig
from kbroker.config.principals import EVERYBODY
from kbroker.ipc.messages import AclDelta
from kbroker.net.connections.answers import Answers
from kbroker.net.connections.connection import Connection
from kbroker.net.forward.forwarding import Forwarding
from kbroker.net.network_tables import NetworkTables
from kbroker.net.produce.checks import ProduceChecks
from kbroker.net.rows import Access as AccessRow
from kbroker.net.rows import Connection as ConnectionRow
from kbroker.net.security.audit import Audit
from kbroker.net.security.grant import Grant, Who, named_topics
from kbroker.net.topics import Topics
from kbroker.protocol.slices import Names, paced

MAX_ANSWER_SCOPES: Final = 1 << 13


def _difference(authorizer: Authorizer, entries: Sequence[Acl]) -> tuple[list[Acl], list[Acl]]:
    """The ACLs to add to an authorizer, and those to remove, so that it has just these."""
    kept = Names(entries)
    removed = [acl for acl in paced(list(authorizer.acls)) if acl not in kept]
    kept.clear()
    return [acl for acl in paced(entries) if acl not in authorizer.acls], removed


def _apply(authorizer: Authorizer, added: Iterable[Acl], removed: Iterable[Acl]) -> None:
    """Change an authorizer in slices. In this order nothing is allowed meanwhile that is allowed
    neither before nor after, and nothing is refused that is allowed before and after."""
    for permission in acls.DENY, acls.ALLOW:
        authorizer.add(acl for acl in paced(added) if acl.permission == permission)
    for permission in acls.ALLOW, acls.DENY:
        authorizer.remove(acl for acl in paced(removed) if acl.permission == permission)


class Process(Protocol):
    """The part of the process that is used here."""

    tables: NetworkTables
    topics: Topics
    connections: dict[int, Connection]
    forwarding: Forwarding
    checks: ProduceChecks
    answers: Answers


class Access:
    """Runs in: network. Owner: the process."""

    def __init__(self, process: Process, config: BrokerConfig) -> None:
        self._tables = process.tables
        self._topics = process.topics
        self._connections = process.connections
        self._know_answer_scope = process.forwarding.know
        self._forget_answers = process.forwarding.forget_answers
        self._answers = process.answers
        self.audit = Audit(process.tables, config, process.connections)
        process.checks.may_write = self.may_write
        self._authorizer = Authorizer.of(config)
        self._grants: dict[Who, Grant] = {}
        self._answer_scopes = 0
        if self._authorizer is not None:
            process.topics.on_row, process.topics.on_rows = self._on_row, self._on_rows

    # --- connections ----------------------------------------------------------------------------------

    def know(self, connection: Connection) -> None:
        """Look up the permissions of a connection whose principal is new, or has other permissions
        now."""
        self.forget(connection)
        authorizer = self._authorizer
        connection.answer_scope = 0
        if authorizer is not None and connection.principal not in authorizer.super_users:
            who = connection.principal, authorizer.host_of(connection.accepted.host)
            grant = self._grants.get(who) or self._new_grant(authorizer, who)
            grant.users += 1
            connection.grant = grant
            connection.answer_scope = grant.answer_scope
            row: NDArray[np.int64] = AccessRow.row()
            row[AccessRow.GRANT] = grant.words.ctypes.data
            connection.access = row, b""
            self._tables.connections[connection.row, ConnectionRow.ACCESS] = row.ctypes.data
        self._know_answer_scope(connection)

    def authenticated(self, connection: Connection) -> None:
        """The client's TLS handshake has succeeded, with the certificate that its listener requires
        or without one."""
        self.know(connection)
        self.audit.login(connection, "SSL", connection.user, "")

    def handshake_failed(self, connection: Connection, reason: str) -> None:
        """The TLS handshake was refused, by the client or here."""
        self.audit.login(connection, "SSL", connection.user, reason)

    def forget(self, connection: Connection) -> None:
        """Forget the permissions of a connection that is closed, or whose row has a new
        connection."""
        grant, connection.grant = connection.grant, None
        self._tables.connections[connection.row, ConnectionRow.ACCESS] = 0
        connection.access = None
        if grant is not None:
            grant.users -= 1
            if not grant.users and self._grants.get(grant.who) is grant:
                del self._grants[grant.who]

    def _new_grant(self, authorizer: Authorizer, who: Who) -> Grant:
        full = self._answer_scopes + 1 >= MAX_ANSWER_SCOPES
        if full and len(self._grants) < MAX_ANSWER_SCOPES - MAX_ANSWER_SCOPES // 4:
            self._renumber()
            full = False
        self._answer_scopes += not full
        grant = Grant(who, -1 if full else self._answer_scopes, authorizer)
        grant.fill(self._topics.rows, self._topics.capacity)
        self._grants[who] = grant
        return grant

    def _renumber(self) -> None:
        """All numbers have been used, and a quarter of them by clients that are gone: open
        connections get new numbers. If it were done for fewer, each login could begin it again."""
        self._forget_answers()
        for number, grant in enumerate(self._grants.values(), 1):
            grant.answer_scope = number
        self._answer_scopes = len(self._grants)
        for connection in self._connections.values():
            if connection.grant is not None:
                connection.answer_scope = connection.grant.answer_scope
                self._know_answer_scope(connection)

    # --- changes --------------------------------------------------------------------------------------

    def change(self, delta: AclDelta | None, full: bool) -> None:
        """Apply the ACLs of control's image; they apply to open connections at once. In slices:
        clients may log in meanwhile, and get permissions that were in force, or will be."""
        authorizer = self._authorizer
        if authorizer is None or delta is None:
            return
        added: Sequence[Acl] = delta.added
        removed: Sequence[Acl] = delta.removed
        if full:
            added, removed = _difference(authorizer, added)
        _apply(authorizer, added, removed)
        grants = list(self._grants.values())
        topics = {} if full else self._changed_topics(authorizer, grants, (*added, *removed))
        for grant in paced(grants):
            if full:
                grant.fill(self._topics.rows, self._topics.capacity)
                continue
            found = [topics[who] for who in (grant.who[0], EVERYBODY, "") if who in topics]
            if found:
                grant.refill(self._topics.rows, found)
        for connection in paced(list(self._connections.values())):
            if connection.grant is not None:
                if connection.grant.who[1] != authorizer.host_of(connection.accepted.host):
                    self.know(connection)
                elif connection.access is not None:
                    connection.access[0][AccessRow.ID] = 0

    def _changed_topics(
        self, authorizer: Authorizer, grants: list[Grant], changed: Iterable[Acl]
    ) -> dict[str, Collection[str]]:
        """The topics that changed ACLs name, by the principal of a grant, or "" for all."""
        named: dict[str, list[Acl]] = {grant.who[0]: [] for grant in paced(grants)}
        named[EVERYBODY], named[""] = [], []
        for acl in paced(changed):
            if (some := named.get("" if authorizer.allow_if_none else acl.principal)) is not None:
                some.append(acl)
        return {who: named_topics(self._topics.rows, some) for who, some in paced(named.items()) if some}

    def _on_row(self, row: int, name: str) -> None:
        for grant in self._grants.values():
            grant.set_topic(row, name)

    def _on_rows(self, former: Mapping[str, int]) -> None:
        """The table of topics was replaced: the bytes of topics move to their new rows, as those of
        ten thousand topics and a hundred grants take seconds to compute."""
        rows = self._topics.rows
        kept = [name for name in rows if name in former]
        before = np.array([former[name] for name in kept], np.int64)
        now = np.array([rows[name] for name in kept], np.int64)
        for grant in self._grants.values():
            grant.move(before, now, self._topics.capacity)
        for name in rows.keys() - former.keys():
            self._on_row(rows[name], name)

    # --- what kernels leave to Python -------------------------------------------------------------------

    def may(self, connection: Connection, operation: int, name: str) -> bool:
        """Whether a client may do an operation to a topic, which need not exist."""
        allowed = connection.grant is None or connection.grant.allows(operation, acls.TOPIC, name)
        if not allowed:
            self.audit.refused(connection, operation, acls.TOPIC, name)
        return allowed

    def may_use_id(self, connection: Connection, name: str) -> bool:
        """Whether a client may produce with a transactional id."""
        allowed = connection.grant is None or connection.grant.allows(acls.WRITE, acls.TRANSACTIONAL_ID, name)
        if not allowed:
            self.audit.refused(connection, acls.WRITE, acls.TRANSACTIONAL_ID, name)
        return allowed

    def denied(self, row: int, topic: int, partitions: int, _: int) -> None:
        """Event: a kernel has refused a Produce to a topic."""
        connection = self._connections.get(row)
        if connection is not None and self.audit.on:
            name = self._topics.name_at(topic)
            self.audit.refused(connection, acls.WRITE, acls.TOPIC, name, partitions)

    def may_write(self, row: int, name: bytes) -> bool:
        """Whether the client of a connection row may write to a topic."""
        connection = self._connections.get(row)
        return connection is None or self.may(connection, acls.WRITE, name.decode(errors="replace"))

    def check_transactional_id(self, row: int, offset: int, length: int, _: int) -> None:
        """Event: a client has produced with a transactional id whose permission is not known yet;
        its request waits."""
        connection = self._connections.get(row)
        if connection is None:
            return
        if connection.access is not None and connection.grant is not None:
            name = bytes(self._tables.arena_bytes[offset : offset + length])
            words = connection.access[0]
            kept: NDArray[np.uint8] = np.frombuffer(name + b"\0", np.uint8)
            connection.access = words, kept
            words[AccessRow.ID_BYTES] = length
            words[AccessRow.ID_ALLOWED] = self.may_use_id(connection, name.decode(errors="replace"))
            words[AccessRow.ID] = kept.ctypes.data
        self._answers.clear_busy(row)
