"""One course of ACLs for every client: made, listed by filters, deleted; and the clients that run
it.

A row has the numbers of the protocol: resource type, name, pattern type, principal, host,
operation, permission. A filter is a row with None, and with 1 (ANY) and 2 (MATCH).
"""

import contextlib
import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Protocol

import kafka.admin as kp
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from tests.compat.neighbours.building import run
from tests.peer.side_work import in_time
from tests.peer.tools import run_tool

Row = tuple[Any, ...]
ANY, MATCH, LITERAL, PREFIXED = 1, 2, 3, 4
TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID = 2, 3, 4, 5
READ, WRITE, CREATE = 3, 4, 5
DENY, ALLOW = 2, 3
ORDERS: Row = (TOPIC, "orders", LITERAL, "User:ann", "*", WRITE, ALLOW)
SHOPS: Row = (TOPIC, "shop-", PREFIXED, "User:ann", "*", READ, ALLOW)
ALL_TOPICS: Row = (TOPIC, "*", LITERAL, "User:bob", "10.0.0.1", READ, DENY)
BILLING: Row = (GROUP, "billing", LITERAL, "User:ann", "*", READ, ALLOW)
PAYMENTS: Row = (TRANSACTIONAL_ID, "tx-", PREFIXED, "User:ann", "*", WRITE, ALLOW)
TOPICS_OF_ALL: Row = (CLUSTER, "kafka-cluster", LITERAL, "User:*", "*", CREATE, ALLOW)
ROWS = (ORDERS, SHOPS, ALL_TOPICS, BILLING, PAYMENTS, TOPICS_OF_ALL)
EVERY: Row = (ANY, None, ANY, None, None, ANY, ANY)
FILTERS: dict[Row, tuple[Row, ...]] = {
    EVERY: ROWS,
    (TOPIC, "shop-1", MATCH, None, None, ANY, ANY): (SHOPS, ALL_TOPICS),
    (TOPIC, "shop-1", LITERAL, None, None, ANY, ANY): (),
    (TOPIC, "shop-", PREFIXED, None, None, ANY, ANY): (SHOPS,),
    (TOPIC, "*", LITERAL, None, None, ANY, ANY): (ALL_TOPICS,),
    (ANY, None, ANY, "User:ann", None, ANY, ANY): (ORDERS, SHOPS, BILLING, PAYMENTS),
    (ANY, None, PREFIXED, None, None, ANY, ANY): (SHOPS, PAYMENTS),
    (ANY, None, ANY, None, "10.0.0.1", ANY, ANY): (ALL_TOPICS,),
    (ANY, None, ANY, None, None, WRITE, ALLOW): (ORDERS, PAYMENTS),
    (ANY, None, ANY, None, None, ANY, DENY): (ALL_TOPICS,),
}
"""Filters, and the rows that each selects."""
SHOP_1: Row = (TOPIC, "shop-1", MATCH, "User:ann", None, ANY, ANY)


class AclClient(Protocol):
    """A client of one cluster."""

    def create(self, rows: Sequence[Row]) -> None:
        """Fails unless all are made."""

    def describe(self, chosen: Row) -> list[Row]:
        """The rows that a filter selects."""

    def delete(self, chosen: Row) -> list[Row]:
        """Delete them; gives those that the answer names."""


def check(client: AclClient, patience_s: float) -> None:
    """The course. patience_s: how long a change may take to be seen, in Apache Kafka."""

    def sees(chosen: Row, rows: Sequence[Row]) -> None:
        ends = time.monotonic() + patience_s
        while (found := sorted(client.describe(chosen))) != sorted(rows) and time.monotonic() < ends:
            time.sleep(0.1)
        assert found == sorted(rows), chosen

    client.create(ROWS)
    for chosen, rows in FILTERS.items():
        sees(chosen, rows)
    client.create([ORDERS])  # again: nothing happens
    assert client.delete(SHOP_1) == [SHOPS]
    sees(EVERY, [row for row in ROWS if row != SHOPS])
    assert sorted(client.delete(EVERY)) == sorted(row for row in ROWS if row != SHOPS)
    sees(EVERY, [])
    assert client.delete(EVERY) == []


class Librdkafka:
    """confluent-kafka."""

    def __init__(self, bootstrap: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap})

    def create(self, rows: Sequence[Row]) -> None:
        for future in self._admin.create_acls([AclBinding(*self._parts(row)) for row in rows]).values():
            future.result(120)

    def describe(self, chosen: Row) -> list[Row]:
        found = self._admin.describe_acls(AclBindingFilter(*self._parts(chosen))).result(120)
        return [self._row(each) for each in found]

    def delete(self, chosen: Row) -> list[Row]:
        (future,) = self._admin.delete_acls([AclBindingFilter(*self._parts(chosen))]).values()
        return [self._row(each) for each in future.result(120)]

    @staticmethod
    def _parts(row: Row) -> tuple[Any, ...]:
        kind, name, pattern, principal, host, operation, permission = row
        return (
            ResourceType(kind), name, ResourcePatternType(pattern), principal, host, AclOperation(operation),
            AclPermissionType(permission),
        )  # fmt: skip

    @staticmethod
    def _row(acl: Any) -> Row:
        return (
            acl.restype.value, acl.name, acl.resource_pattern_type.value, acl.principal, acl.host,
            acl.operation.value, acl.permission_type.value,
        )  # fmt: skip


class KafkaPython:
    """kafka-python."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    @contextlib.contextmanager
    def _admin(self) -> Iterator[Any]:
        admin = kp.KafkaAdminClient(bootstrap_servers=self._bootstrap)
        try:
            yield admin
        finally:
            in_time(admin.close)

    def create(self, rows: Sequence[Row]) -> None:
        made = [kp.ACL(*self._who(row), kp.ResourcePattern(*self._what(row))) for row in rows]
        with self._admin() as admin:
            result = admin.create_acls(made)
        assert (len(result["succeeded"]), result["failed"]) == (len(rows), []), result

    def describe(self, chosen: Row) -> list[Row]:
        with self._admin() as admin:
            found, error = admin.describe_acls(self._filter(chosen))
        assert not error.errno, error
        return [self._row(each) for each in found]

    def delete(self, chosen: Row) -> list[Row]:
        with self._admin() as admin:
            ((_, found, error),) = admin.delete_acls([self._filter(chosen)])
        assert not error.errno, error
        return [self._row(each) for each in found]

    def _filter(self, row: Row) -> Any:
        pattern = kp.ResourcePatternFilter(*self._what(row))
        return kp.ACLFilter(*self._who(row), pattern)

    @staticmethod
    def _what(row: Row) -> tuple[Any, ...]:
        return kp.ResourceType(row[0]), row[1], kp.ACLResourcePatternType(row[2])

    @staticmethod
    def _who(row: Row) -> tuple[Any, ...]:
        return row[3], row[4], kp.ACLOperation(row[5]), kp.ACLPermissionType(row[6])

    @staticmethod
    def _row(acl: Any) -> Row:
        pattern = acl.resource_pattern
        return (
            int(pattern.resource_type), pattern.resource_name, int(pattern.pattern_type), acl.principal, acl.host,
            int(acl.operation), int(acl.permission_type),
        )  # fmt: skip


class Program:
    """A program of another language: PROGRAM BOOTSTRAP create|describe|delete ROWS, as JSON; prints
    rows."""

    def __init__(self, command: Sequence[str], bootstrap: str, **environment: str) -> None:
        self._command = [*command, bootstrap]
        self._environment = environment

    def create(self, rows: Sequence[Row]) -> None:
        self._run("create", rows)

    def describe(self, chosen: Row) -> list[Row]:
        return self._run("describe", [chosen])

    def delete(self, chosen: Row) -> list[Row]:
        return self._run("delete", [chosen])

    def _run(self, what: str, rows: Sequence[Row]) -> list[Row]:
        printed = run([*self._command, what, json.dumps(rows)], **self._environment)
        return [tuple(row) for row in json.loads(printed)]


class KafkaAcls:
    """kafka-acls.sh of Apache Kafka. A run lists a resource by its name, or all ACLs of a
    principal."""

    KINDS: ClassVar = {
        "TOPIC": TOPIC,
        "GROUP": GROUP,
        "CLUSTER": CLUSTER,
        "TRANSACTIONAL_ID": TRANSACTIONAL_ID,
    }
    PATTERNS: ClassVar = {"LITERAL": LITERAL, "PREFIXED": PREFIXED}
    OPERATIONS: ClassVar = {"READ": READ, "WRITE": WRITE, "CREATE": CREATE}
    PERMISSIONS: ClassVar = {"ALLOW": ALLOW, "DENY": DENY}
    _RESOURCE = re.compile(r"ResourcePattern\(resourceType=(\w+), name=(.*), patternType=(\w+)\)")
    _ACL = re.compile(r"\(principal=(.*), host=(.*), operation=(\w+), permissionType=(\w+)\)")

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def create(self, rows: Sequence[Row]) -> None:
        for row in rows:
            kind = "allow" if row[6] == ALLOW else "deny"
            operation = _named(self.OPERATIONS, row[5])
            who = (f"--{kind}-principal", row[3], f"--{kind}-host", row[4], "--operation", operation)
            self._run("--add", *who, *self._resource(row))

    def listed(self, *options: str) -> list[Row]:
        """The rows of --list."""
        return self._rows(self._run("--list", *options))

    def removed(self, *options: str) -> None:
        """Remove what the options select, without a question."""
        self._run("--remove", "--force", *options)

    def _resource(self, row: Row) -> tuple[str, ...]:
        names = {TOPIC: "--topic", GROUP: "--group", TRANSACTIONAL_ID: "--transactional-id"}
        pattern = ("--resource-pattern-type", _named(self.PATTERNS, row[2]).lower())
        return ("--cluster",) if row[0] == CLUSTER else (names[row[0]], row[1], *pattern)

    def _rows(self, printed: str) -> list[Row]:
        found: list[Row] = []
        resource: Row = ()
        for line in printed.splitlines():
            if match := self._RESOURCE.search(line):
                resource = self.KINDS[match[1]], match[2], self.PATTERNS[match[3]]
            elif match := self._ACL.search(line):
                found.append(
                    (*resource, match[1], match[2], self.OPERATIONS[match[3]], self.PERMISSIONS[match[4]])
                )
        return found

    def _run(self, *options: str) -> str:
        tool = "org.apache.kafka.tools.AclCommand"
        return run_tool(tool, "--bootstrap-server", self._bootstrap, *options).stdout


def _named(names: dict[str, int], number: int) -> str:
    return next(name for name, each in names.items() if each == number)


CLIENTS: dict[str, Callable[[str], AclClient]] = {"librdkafka": Librdkafka, "kafka-python": KafkaPython}
