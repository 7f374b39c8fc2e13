"""ACLs have Kafka's numbers, and a filter selects by each of its fields."""

from typing import Any

import pytest

from kbroker.config import acls
from kbroker.config.acls import Acl, AclFilter

ACL = Acl(acls.TOPIC, "orders", acls.LITERAL, "User:x", "h", acls.READ, acls.ALLOW)
EVERY = AclFilter(acls.ANY, None, acls.ANY, None, None, acls.ANY, acls.ANY)


def test_numbers_are_those_of_the_protocol() -> None:
    assert list(acls.RESOURCES.items()) == list(
        enumerate(("TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID", "DELEGATION_TOKEN", "USER"), 2)
    )
    assert (acls.ANY, acls.MATCH, acls.PATTERNS) == (1, 2, {3: "LITERAL", 4: "PREFIXED"})
    assert acls.PERMISSIONS == {2: "DENY", 3: "ALLOW"}
    names = (
        *("ALL", "READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "CLUSTER_ACTION"),
        *("DESCRIBE_CONFIGS", "ALTER_CONFIGS", "IDEMPOTENT_WRITE", "CREATE_TOKENS"),
        *("DESCRIBE_TOKENS", "TWO_PHASE_COMMIT"),
    )
    assert list(acls.OPERATIONS.items()) == list(enumerate(names, 2))


def test_each_type_of_resource_has_kafkas_operations() -> None:
    found = {
        acls.RESOURCES[kind]: {acls.OPERATIONS[each] for each in operations}
        for kind, operations in acls.SUPPORTED.items()
    }
    configs = {"DESCRIBE_CONFIGS", "ALTER_CONFIGS"}
    assert found == {
        "TOPIC": {"READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE"} | configs,
        "GROUP": {"READ", "DELETE", "DESCRIBE"} | configs,
        "CLUSTER": {"CREATE", "ALTER", "DESCRIBE", "CLUSTER_ACTION", "IDEMPOTENT_WRITE"} | configs,
        "TRANSACTIONAL_ID": {"WRITE", "DESCRIBE", "TWO_PHASE_COMMIT"},
        "DELEGATION_TOKEN": {"DESCRIBE"},
        "USER": {"CREATE_TOKENS", "DESCRIBE_TOKENS"},
    }


def test_some_permissions_include_that_to_describe() -> None:
    found = {
        acls.OPERATIONS[operation]: {acls.OPERATIONS[each] for each in implying}
        for operation, implying in acls.IMPLYING.items()
    }
    assert found == {
        "DESCRIBE": {"DESCRIBE", "READ", "WRITE", "DELETE", "ALTER"},
        "DESCRIBE_CONFIGS": {"DESCRIBE_CONFIGS", "ALTER_CONFIGS"},
    }


@pytest.mark.parametrize(
    ("field", "value", "matches"),
    [
        ("resource_type", acls.TOPIC, True),
        ("resource_type", acls.GROUP, False),
        ("resource_name", "orders", True),
        ("resource_name", "order", False),
        ("pattern_type", acls.LITERAL, True),
        ("pattern_type", acls.MATCH, True),
        ("pattern_type", acls.PREFIXED, False),
        ("principal", "User:x", True),
        ("principal", "User:*", False),
        ("host", "h", True),
        ("host", "*", False),
        ("operation", acls.READ, True),
        ("operation", acls.ALL, False),
        ("operation", acls.DESCRIBE, False),
        ("permission", acls.ALLOW, True),
        ("permission", acls.DENY, False),
    ],
)
def test_a_filter_selects_by_each_field(field: str, value: Any, matches: bool) -> None:
    assert EVERY.matches(ACL)
    assert EVERY._replace(**{field: value}).matches(ACL) is matches


@pytest.mark.parametrize(
    ("pattern", "name", "requested", "matches"),
    [
        (acls.LITERAL, "orders", "orders", True),
        (acls.LITERAL, "*", "orders", True),
        (acls.LITERAL, "ord", "orders", False),
        (acls.PREFIXED, "ord", "orders", True),
        (acls.PREFIXED, "orders", "orders", True),
        (acls.PREFIXED, "orders-x", "orders", False),
        (acls.PREFIXED, "*", "orders", False),
    ],
)
def test_a_filter_that_matches_selects_the_patterns_of_a_name(
    pattern: int, name: str, requested: str, matches: bool
) -> None:
    acl = ACL._replace(pattern_type=pattern, resource_name=name)
    assert EVERY._replace(pattern_type=acls.MATCH, resource_name=requested).matches(acl) is matches
    exactly = EVERY._replace(resource_name=requested)
    assert exactly.matches(acl) is (name == requested)
