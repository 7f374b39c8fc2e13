"""The audit log of requests that control answers: one line for every change and every refusal."""

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from kbroker.api.error_counts import REFUSALS
from kbroker.control.audit.log import AuditLog, shortened
from kbroker.ipc.messages import ClientRequest
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.kafka_uuid import format_uuid
from kbroker.protocol.schema import ZERO_UUID, Struct
from kbroker.protocol.slices import paced

CHANGES: Final = frozenset(
    (
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.DELETE_RECORDS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ALTER_REPLICA_LOG_DIRS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.ELECT_LEADERS,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.DELETE_GROUPS,
        ApiKey.OFFSET_DELETE,
        ApiKey.ALTER_SHARE_GROUP_OFFSETS,
        ApiKey.DELETE_SHARE_GROUP_OFFSETS,
        ApiKey.UPDATE_FEATURES,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.WRITE_TXN_MARKERS,
    )
)
MAY_HAVE_CHANGED: Final = frozenset(
    (
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
    )
)
"""Codes of changes that were made, or that go on without the client. All others change nothing."""
MAX_NAMED: Final = 50
"""Maximum number of resources in a line; its counts by error cover all."""
MAX_NESTED: Final = 20
NAMES: Final = (
    "name", "topic_name", "topic", "resource_name", "group_id", "key", "transactional_id", "user", "feature",
    "partition_index", "partition_id", "partition", "token_id",
)  # fmt: skip
OF_REQUEST: Final = (
    "group_id", "transactional_id", "broker_id", "validate_only", "owner_principal_type", "owner_principal_name",
    "max_lifetime_ms", "renew_period_ms", "expiry_time_period_ms",
)  # fmt: skip
LISTED: Final = (
    "creations", "filters", "resources", "entries", "deletions", "upsertions", "feature_updates", "renewers",
)  # fmt: skip
HIDDEN: Final = frozenset(("salt", "salted_password", "value", "hmac", "iterations"))
"""Fields whose values are never logged: values of settings may be passwords."""


def audit(
    log: AuditLog | None, client: ClientRequest, request: Struct, response: Struct, refused: bool
) -> None:
    """Log the request if it was a change or was refused. Of a change that was refused in part there
    are two lines: else a client could hide it by naming what it may not change, too. Requests that
    change nothing are within the limits of refused ones: no permission is needed for those that
    name nothing, or a token that does not exist."""
    if log is None:
        return
    is_change = client.api_key in CHANGES
    refused = refused and log.admits_refusal(client.principal, client.client_host, client.listener)
    if not (refused or is_change):
        return
    counts: Counter[int] = Counter()
    named: tuple[list[dict[str, str]], list[dict[str, str]]] = [], []
    for names, code in outcomes(response, ()):
        counts[code] += 1
        some = named[code in REFUSALS]
        if any(names) and len(some) < MAX_NAMED:
            some.append({"name": shortened("/".join(names)), "error": ErrorCode(code).name})
    changed, left = named
    if is_change and (changed or not counts.keys() & REFUSALS):
        line = _line("change", client, request, changed, counts)
        if counts.keys() & MAY_HAVE_CHANGED and not getattr(request, "validate_only", False):
            log.write_change(line)
        elif log.admits_refusal(client.principal, client.client_host, client.listener):
            log.write(line)
    if refused:
        log.write(_line("refusal", client, request, left, counts))


def _line(
    event: str, client: ClientRequest, request: Struct, named: list[dict[str, str]], counts: Counter[int]
) -> dict[str, Any]:
    return {
        "event": event,
        **of_client(client),
        "operation": ApiKey(client.api_key).title,
        "allowed": event == "change",
        "resources": named,
        "errors": {ErrorCode(code).name: count for code, count in counts.items()},
        "request": request_fields(request),
    }


def topic_created(log: AuditLog | None, client: ClientRequest, names: list[str]) -> None:
    """A Metadata request has created topics."""
    if log is not None and names:
        named = [{"name": shortened(name)} for name in names[:MAX_NAMED]]
        line = {"event": "change", **of_client(client), "operation": "Metadata", "allowed": True}
        log.write({**line, "resources": named, "request": {"created": len(names)}})


def of_client(client: ClientRequest) -> dict[str, Any]:
    """The client's principal and address."""
    return {
        "principal": client.principal,
        "host": client.client_host,
        "port": client.client_port,
        "listener": client.listener,
        "client_id": None if client.client_id is None else shortened(client.client_id),
    }


def outcomes(answer: Struct, names: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], int]]:
    """(names that lead to it, error code) of every part of an answer that has a code."""
    own = [str(getattr(answer, name)) for name in NAMES if getattr(answer, name, None) is not None]
    if not own and (topic_id := getattr(answer, "topic_id", ZERO_UUID)) != ZERO_UUID:
        own = [_plain(topic_id, 0)]
    here = (*names, *own)
    for field in answer.SCHEMA.fields:
        value = getattr(answer, field.name)
        if field.name == "error_code":
            yield here, int(value)
        elif field.item is not None and isinstance(value, Struct):
            yield from outcomes(value, here)
        elif field.item is not None and value is not None:
            for each in paced(value):
                yield from outcomes(each, here)


def request_fields(request: Struct) -> dict[str, Any]:
    """Fields of the request that the answer lacks, such as the group and names of settings; never
    values of settings or keys."""
    found: dict[str, Any] = {}
    for name in OF_REQUEST:
        value = getattr(request, name, None)
        if value is not None:
            found[name] = shortened(value) if isinstance(value, str) else value
    for name in LISTED:
        if items := getattr(request, name, None):
            found[name] = [_plain(item, 3) for item in items[:MAX_NAMED]]
    return found


def _plain(item: Any, depth: int) -> Any:
    """An item as a JSON value."""
    if isinstance(item, str):
        return shortened(item)
    if isinstance(item, bytes):  # a topic id in Kafka's format
        return format_uuid(item[:16])
    if isinstance(item, list) and depth:
        return [_plain(each, depth - 1) for each in item[:MAX_NESTED]]
    if isinstance(item, Struct) and depth:
        fields = (field.name for field in item.SCHEMA.fields if field.name not in HIDDEN)
        return {name: _plain(getattr(item, name), depth - 1) for name in fields}
    return item if isinstance(item, int | float | bool | None) else shortened(str(item))
