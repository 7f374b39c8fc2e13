"""Quotas, users and ACLs."""

from math import isfinite
from typing import Any

from kbroker.http.console.paging import page, page_of
from kbroker.http.console.refusal import check
from kbroker.http.console.request import Request
from kbroker.http.console.schema import BOOL, INT, NUMBER, TEXT, Schema, fields, many, maybe
from kbroker.http.console.scram_client import NAMES
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.describe_acls import DescribeAclsRequest
from kbroker.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from kbroker.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest

ANY = 1
RESOURCES = ("unknown", "any", "topic", "group", "cluster", "transactional id", "delegation token", "user")
PATTERNS = ("unknown", "any", "match", "literal", "prefixed")
OPERATIONS = (
    "unknown", "any", "all", "read", "write", "create", "delete", "alter", "describe", "cluster action",
    "describe configs", "alter configs", "idempotent write", "create tokens", "describe tokens", "two phase commit",
)  # fmt: skip
PERMISSIONS = ("unknown", "any", "deny", "allow")
LIMITS: Schema = {"type": "object", "additionalProperties": maybe(NUMBER)}
QUOTAS = page_of("quotas", fields(entity=many(fields(type=TEXT, name=maybe(TEXT))), values=LIMITS))
USERS = page_of("users", fields(name=TEXT, credentials=many(fields(mechanism=TEXT, iterations=INT))))
ACL = fields(
    resource=TEXT, name=TEXT, pattern=TEXT, principal=TEXT, host=TEXT, operation=TEXT, permission=TEXT
)
ACLS = fields(enabled=BOOL, **page_of("acls", ACL)["properties"])


def _word(words: tuple[str, ...], number: int) -> str:
    return words[number] if 0 <= number < len(words) else f"number {number}"


def quotas(request: Request) -> dict[str, Any]:
    """All quotas. null stands for a value that JSON lacks (Infinity, NaN), which limits nothing."""
    answer = request.caller.ask(ApiKey.DESCRIBE_CLIENT_QUOTAS, DescribeClientQuotasRequest())
    check(answer.error_code, "quotas", answer.error_message)
    rows = [
        {
            "entity": [{"type": part.entity_type, "name": part.entity_name} for part in entry.entity],
            "values": {each.key: each.value if isfinite(each.value) else None for each in entry.values},
        }
        for entry in answer.entries or []
    ]
    rows.sort(key=lambda row: str(row["entity"]))
    return page("quotas", rows, request)


def users(request: Request) -> dict[str, Any]:
    """Names of SCRAM users, with mechanism and iterations of their credentials. The credentials
    stay secret."""
    answer = request.caller.ask(
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, DescribeUserScramCredentialsRequest(None)
    )
    check(answer.error_code, "users", answer.error_message)
    rows = [
        {
            "name": user.user,
            "credentials": [
                {"mechanism": NAMES.get(info.mechanism, "unknown"), "iterations": info.iterations}
                for info in user.credential_infos
            ],
        }
        for user in sorted(answer.results, key=lambda user: user.user)
    ]
    return page("users", rows, request)


def acls(request: Request) -> dict[str, Any]:
    """All ACLs; enabled is false on a broker without an authorizer."""
    api_request = DescribeAclsRequest(ANY, None, ANY, None, None, ANY, ANY)
    answer = request.caller.ask(ApiKey.DESCRIBE_ACLS, api_request)
    if answer.error_code == ErrorCode.SECURITY_DISABLED:
        return {"enabled": False, **page("acls", [], request)}
    check(answer.error_code, "ACLs", answer.error_message)
    rows = [
        {
            "resource": _word(RESOURCES, resource.resource_type),
            "name": resource.resource_name,
            "pattern": _word(PATTERNS, resource.pattern_type),
            "principal": acl.principal,
            "host": acl.host,
            "operation": _word(OPERATIONS, acl.operation),
            "permission": _word(PERMISSIONS, acl.permission_type),
        }
        for resource in answer.resources
        for acl in resource.acls
    ]
    rows.sort(key=lambda row: (row["resource"], row["name"], row["principal"], row["operation"]))
    return {"enabled": True, **page("acls", rows, request)}
