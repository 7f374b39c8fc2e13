"""Set and remove quotas, set passwords of SCRAM users and delete them, create and delete ACLs."""

import hashlib
import secrets
from collections.abc import Iterable, Mapping
from typing import Any

from kbroker.http.console.changes.topics import CONFIRM, VALIDATE, confirmed
from kbroker.http.console.refusal import Refusal, check, not_found
from kbroker.http.console.request import Request
from kbroker.http.console.schema import BOOL, TEXT, Parameter, fields, many
from kbroker.http.console.scram_client import HASHES, NAMES
from kbroker.http.console.views.access import (
    ACL,
    OPERATIONS,
    PATTERNS,
    PERMISSIONS,
    RESOURCES,
)
from kbroker.ipc.messages import SCRAM_MECHANISMS
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    OpData,
    RequestEntityData,
    RequestEntryData,
)
from kbroker.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kbroker.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from kbroker.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kbroker.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)

ITERATIONS, MAX_ITERATIONS = 4096, 16384
SALT_BYTES = 20
MAX_NAME = 1000
"""Characters of a principal, and of the name of a resource."""
QUOTAS = (
    Parameter(
        "entity",
        "Names by type: user, client-id or both, or ip; null is the default of all without a quota of their own.",
        "map",
        required=True,
        low=1,
        high=2,
        nulls=True,
    ),
    Parameter(
        "values",
        "Limits by quota, producer_byte_rate for example; null removes one.",
        "numbers",
        required=True,
        low=1,
        high=16,
    ),
    VALIDATE,
)
USER = (
    Parameter("name", "Name of the user.", required=True),
    Parameter("password", "The new password.", required=True, high=1000),
    Parameter("mechanism", "Default: all SCRAM mechanisms.", choices=tuple(HASHES)),
    Parameter(
        "iterations", "Iterations of the hash.", "integer", ITERATIONS, low=ITERATIONS, high=MAX_ITERATIONS
    ),
)
REMOVE_USER = (CONFIRM,)
ACL_FIELDS = (
    Parameter("resource", "Type of the resource.", required=True, choices=RESOURCES[2:]),
    Parameter("name", "Name of the resource, or its prefix; * for all.", required=True, high=MAX_NAME),
    Parameter("pattern", "Whether the name is a prefix.", default="literal", choices=PATTERNS[3:]),
    Parameter("principal", "User:NAME; User:* for all.", required=True, high=MAX_NAME),
    Parameter("host", "Address of the client; * for all.", default="*"),
    Parameter("operation", "The operation.", required=True, choices=OPERATIONS[2:]),
    Parameter("permission", "Whether it is allowed.", default="allow", choices=PERMISSIONS[2:]),
)
CHANGED_QUOTAS = fields(changed=many(TEXT), validated_only=BOOL)
CHANGED_USER = fields(name=TEXT, mechanisms=many(TEXT))
CHANGED_ACL = ACL


def alter_quotas(request: Request) -> dict[str, Any]:
    """Set and remove quotas of one entity."""
    parts = [RequestEntityData(kind, name) for kind, name in request["entity"].items()]
    changes = [
        OpData(key, 0.0 if value is None else float(value), value is None)
        for key, value in request["values"].items()
    ]
    api_request = AlterClientQuotasRequest([RequestEntryData(parts, changes)], request["validate_only"])
    answer = request.caller.ask(ApiKey.ALTER_CLIENT_QUOTAS, api_request).entries[0]
    check(answer.error_code, "quotas", answer.error_message)
    return {"changed": sorted(request["values"]), "validated_only": request["validate_only"]}


def put_user(request: Request) -> dict[str, Any]:
    """Set the password of a user. The broker gets the salted password, for each mechanism by a
    request: one cannot change a user twice."""
    name, iterations = request["name"], request["iterations"]
    mechanisms = [request["mechanism"]] if request["mechanism"] else _own_last(request, HASHES)
    requests = {}
    for mechanism in mechanisms:
        salt = secrets.token_bytes(SALT_BYTES)
        salted = hashlib.pbkdf2_hmac(HASHES[mechanism], request["password"].encode(), salt, iterations)
        credential = ScramCredentialUpsertion(
            name, SCRAM_MECHANISMS[mechanism].number, iterations, salt, salted
        )
        requests[mechanism] = AlterUserScramCredentialsRequest(upsertions=[credential])
    return {"name": name, "mechanisms": _alter(request, name, requests, "set")}


def delete_user(request: Request) -> dict[str, Any]:
    """Delete all SCRAM credentials of a user."""
    name = request["user"]
    confirmed(request, name)
    described = request.caller.ask(
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, DescribeUserScramCredentialsRequest([UserName(name)])
    )
    check(described.error_code, f"user {name}", described.error_message)
    found = described.results[0]
    check(found.error_code, f"user {name}", found.error_message)
    requests = {}
    for mechanism in _own_last(request, [NAMES[info.mechanism] for info in found.credential_infos]):
        credential = ScramCredentialDeletion(name, SCRAM_MECHANISMS[mechanism].number)
        requests[mechanism] = AlterUserScramCredentialsRequest(deletions=[credential])
    return {"name": name, "mechanisms": _alter(request, name, requests, "deleted")}


def _own_last(request: Request, mechanisms: Iterable[str]) -> list[str]:
    """Users who change themselves cannot send another request once the mechanism of their login has
    changed."""
    return sorted(mechanisms, key=lambda each: (each == request.caller.mechanism, each))


def _alter(
    request: Request, name: str, requests: Mapping[str, AlterUserScramCredentialsRequest], verb: str
) -> list[str]:
    """Returns the mechanisms. The refusal of one lists those that were changed before it."""
    done: list[str] = []
    for mechanism, api_request in requests.items():
        try:
            answer = request.caller.ask(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, api_request).results[0]
            check(answer.error_code, f"user {name}", answer.error_message)
        except Refusal as refusal:
            if not done:
                raise
            text = f"{', '.join(done)} of user {name} is {verb}, {mechanism} is not: {refusal.text}"
            raise Refusal(refusal.status, refusal.code, text) from refusal
        done.append(mechanism)
    return done


def create_acl(request: Request) -> dict[str, Any]:
    """Add an ACL; one that exists stays."""
    answer = request.caller.ask(ApiKey.CREATE_ACLS, CreateAclsRequest([AclCreation(*_acl(request))]))
    check(answer.results[0].error_code, "ACL", answer.results[0].error_message)
    return _shown(request)


def delete_acl(request: Request) -> dict[str, Any]:
    """Delete exactly this ACL."""
    api_request = DeleteAclsRequest([DeleteAclsFilter(*_acl(request))])
    answer = request.caller.ask(ApiKey.DELETE_ACLS, api_request).filter_results[0]
    check(answer.error_code, "ACL", answer.error_message)
    if not answer.matching_acls:
        raise not_found("there is no such ACL")
    for acl in answer.matching_acls:
        check(acl.error_code, "ACL", acl.error_message)
    return _shown(request)


def _acl(request: Request) -> tuple[int, str, int, str, str, int, int]:
    """The fields in the order of the protocol's messages."""
    return (
        RESOURCES.index(request["resource"]),
        request["name"],
        PATTERNS.index(request["pattern"]),
        request["principal"],
        request["host"],
        OPERATIONS.index(request["operation"]),
        PERMISSIONS.index(request["permission"]),
    )


def _shown(request: Request) -> dict[str, Any]:
    return {each.name: request[each.name] for each in ACL_FIELDS}
