"""Permissions of one principal: the rows and bytes in which kernels look them up."""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kbroker.config import acls
from kbroker.config.acls import Acl
from kbroker.config.authorizer import Authorizer
from kbroker.net.rows import Grant as GrantRow
from kbroker.net.rows import May
from kbroker.protocol.slices import paced

BITS: Final = ((May.WRITE, acls.WRITE), (May.READ, acls.READ), (May.DESCRIBE, acls.DESCRIBE))
Who = tuple[str, str | None]
"""Principal, and host if ACLs name it."""


class Grant:
    """Permissions of one principal from one host. answer_scope: number of the set of clients that
    get the same answers, -1 when there are too many sets."""

    __slots__ = ("_authorizer", "answer_scope", "bits", "users", "who", "words")

    def __init__(self, who: Who, answer_scope: int, authorizer: Authorizer) -> None:
        self.who = who
        self._authorizer = authorizer
        self.answer_scope = answer_scope
        self.users = 0
        self.bits: NDArray[np.uint8] = np.zeros(0, np.uint8)
        self.words: NDArray[np.int64] = GrantRow.row()

    def allows(self, operation: int, kind: int, name: str) -> bool:
        """Whether an operation on a resource is allowed."""
        return self._authorizer.allows(*self.who, operation, kind, name)

    def set_topic(self, row: int, name: str) -> None:
        """Compute the byte of a topic."""
        self.bits[row] = sum(bit for bit, operation in BITS if self.allows(operation, acls.TOPIC, name))

    def fill(self, rows: Mapping[str, int], capacity: int) -> None:
        """Compute everything again. capacity: rows of the table of topics."""
        if len(self.bits) != capacity:
            self._use(np.zeros(capacity, np.uint8))
        self._set_topics(rows, list(rows))
        self._fill_producer_ids()

    def move(self, before: NDArray[np.int64], now: NDArray[np.int64], capacity: int) -> None:
        """The table of topics has another size, and its topics have other rows, one by one."""
        bits = np.zeros(capacity, np.uint8)
        bits[now] = self.bits[before]
        self._use(bits)

    def _use(self, bits: NDArray[np.uint8]) -> None:
        self.bits = bits
        self.words[GrantRow.TOPICS] = bits.ctypes.data

    def refill(self, rows: Mapping[str, int], changed: Iterable[Collection[str]]) -> None:
        """Compute again what some changed ACLs may have changed: the topics that they name."""
        for names in changed:
            self._set_topics(rows, names)
        self._fill_producer_ids()

    def _set_topics(self, rows: Mapping[str, int], names: Iterable[str]) -> None:
        """Compute the bytes of topics, once for those with the same ACLs: there may be
        thousands."""
        for some in self._authorizer.grouped(self.who[0], acls.TOPIC, names):
            self.set_topic(rows[some[0]], some[0])
            self.bits[[rows[name] for name in paced(some)]] = self.bits[rows[some[0]]]

    def _fill_producer_ids(self) -> None:
        self.words[GrantRow.PRODUCER_IDS] = self.allows(
            acls.IDEMPOTENT_WRITE, acls.CLUSTER, acls.CLUSTER_NAME
        ) or self._authorizer.allows_some(*self.who, acls.WRITE, acls.TOPIC)


def named_topics(rows: Mapping[str, int], changed: Iterable[Acl]) -> Collection[str]:
    """The topics that some ACLs name, by their names, by prefixes, or all."""
    names: set[str] = set()
    prefixes: set[str] = set()
    for acl in paced(changed):
        if acl.resource_type == acls.TOPIC:
            literal = acl.pattern_type == acls.LITERAL
            (names if literal and acl.resource_name != acls.WILDCARD else prefixes).add(acl.resource_name)
    if acls.WILDCARD in prefixes:
        return list(rows)
    for length in {len(prefix) for prefix in prefixes}:
        names.update(name for name in paced(list(rows)) if name[:length] in prefixes)
    return [name for name in paced(names) if name in rows]
