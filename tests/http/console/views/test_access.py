"""Quotas, users and ACLs as the console lists them."""

from collections.abc import Callable
from typing import Any, cast

import pytest

from kbroker.http.console.refusal import Refusal
from kbroker.http.console.request import Request
from kbroker.http.console.views.access import ACLS, QUOTAS, USERS, acls, quotas, users
from kbroker.protocol.messages.describe_acls import AclDescription, DescribeAclsResource, DescribeAclsResponse
from kbroker.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from kbroker.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from tests.http.console.schemas import problems


class Asked:
    """A request for a page, and the broker's answer. sent: the broker's request."""

    def __init__(self, answer: Any, offset: int = 0, limit: int = 100) -> None:
        self.values = {"offset": offset, "limit": limit}
        self.reply = answer
        self.sent: Any = None

    def __getitem__(self, name: str) -> int:
        return self.values[name]

    @property
    def caller(self) -> "Asked":
        return self

    def ask(self, _key: int, request: Any) -> Any:
        self.sent = request
        return self.reply

    def page(self, view: Callable[[Request], dict[str, Any]]) -> dict[str, Any]:
        return view(cast(Request, self))


def entry(kind: str, name: str | None, **values: float) -> EntryData:
    return EntryData([EntityData(kind, name)], [ValueData(*each) for each in values.items()])


def test_quotas_are_sorted_by_their_entities() -> None:
    entries = [entry("user", "b", rate=2.0), entry("user", "a", rate=1.5), entry("client-id", None, rate=3.0)]
    found = Asked(DescribeClientQuotasResponse(entries=entries)).page(quotas)
    assert problems(found, QUOTAS) == []
    assert [(row["entity"][0]["type"], row["entity"][0]["name"]) for row in found["quotas"]] == [
        ("client-id", None),
        ("user", "a"),
        ("user", "b"),
    ]
    assert [row["values"] for row in found["quotas"]] == [{"rate": 3.0}, {"rate": 1.5}, {"rate": 2.0}]
    second = Asked(DescribeClientQuotasResponse(entries=entries), 1, 1).page(quotas)
    assert (second["quotas"], second["total"]) == (found["quotas"][1:2], 3)


def test_a_quota_that_json_lacks_is_null() -> None:
    entries = [entry("user", "a", first=float("inf"), second=float("nan"), third=0.0)]
    found = Asked(DescribeClientQuotasResponse(entries=entries)).page(quotas)
    assert found["quotas"][0]["values"] == {"first": None, "second": None, "third": 0.0}
    assert Asked(DescribeClientQuotasResponse(entries=None)).page(quotas)["total"] == 0


def test_users_are_sorted_and_have_their_mechanisms() -> None:
    results = [
        DescribeUserScramCredentialsResult("b", 0, None, [CredentialInfo(2, 8192)]),
        DescribeUserScramCredentialsResult("a", 0, None, [CredentialInfo(1, 4096), CredentialInfo(9, 1)]),
    ]
    found = Asked(DescribeUserScramCredentialsResponse(results=results)).page(users)
    assert problems(found, USERS) == []
    assert found["users"] == [
        {
            "name": "a",
            "credentials": [
                {"mechanism": "SCRAM-SHA-256", "iterations": 4096},
                {"mechanism": "unknown", "iterations": 1},
            ],
        },
        {"name": "b", "credentials": [{"mechanism": "SCRAM-SHA-512", "iterations": 8192}]},
    ]


def test_acls_are_in_words_and_sorted() -> None:
    resources = [
        DescribeAclsResource(
            2, "t", 3, [AclDescription("User:b", "*", 4, 3), AclDescription("User:a", "h", 3, 2)]
        ),
        DescribeAclsResource(3, "g", 4, [AclDescription("User:a", "*", 2, 3)]),
    ]
    asked = Asked(DescribeAclsResponse(resources=resources))
    found = asked.page(acls)
    assert problems(found, ACLS) == []
    assert (found["enabled"], found["total"]) == (True, 3)
    assert [tuple(row.values()) for row in found["acls"]] == [
        ("group", "g", "prefixed", "User:a", "*", "all", "allow"),
        ("topic", "t", "literal", "User:a", "h", "read", "deny"),
        ("topic", "t", "literal", "User:b", "*", "write", "allow"),
    ]
    sent = asked.sent
    assert (sent.resource_type_filter, sent.pattern_type_filter, sent.operation, sent.permission_type) == (
        (1,) * 4
    )
    assert sent.resource_name_filter is sent.principal_filter is sent.host_filter is None


def test_numbers_without_a_word_are_shown() -> None:
    resources = [DescribeAclsResource(8, "x", 5, [AclDescription("User:a", "*", 16, -1)])]
    (row,) = Asked(DescribeAclsResponse(resources=resources)).page(acls)["acls"]
    assert (row["resource"], row["pattern"]) == ("number 8", "number 5")
    assert (row["operation"], row["permission"]) == ("number 16", "number -1")


def test_a_broker_without_an_authorizer_has_no_acls() -> None:
    found = Asked(DescribeAclsResponse(error_code=54)).page(acls)
    assert found == {"enabled": False, "acls": [], "total": 0, "offset": 0}


@pytest.mark.parametrize(
    ("view", "answer", "about"),
    [
        (quotas, DescribeClientQuotasResponse(error_code=31, error_message="no"), "quotas"),
        (users, DescribeUserScramCredentialsResponse(error_code=31, error_message="no"), "users"),
        (acls, DescribeAclsResponse(error_code=31, error_message="no"), "ACLs"),
    ],
)
def test_a_refused_list_of_access_is_refused(
    view: Callable[[Request], dict[str, Any]], answer: Any, about: str
) -> None:
    with pytest.raises(Refusal) as refused:
        Asked(answer).page(view)
    assert (refused.value.status, refused.value.text) == (403, f"{about}: no")
