"""Next steps after an error of the broker, by its code: a sentence that only names the error leaves
a user without one."""

from kbroker.protocol.errors import ErrorCode

_ALLOW = "an administrator may allow it (`kbroker acls add`, `kbroker docs security`)"
_HINTS = {
    ErrorCode.MESSAGE_TOO_LARGE: "raise max.message.bytes of the topic, or send smaller records",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "`kbroker topics list` shows the topics",
    ErrorCode.OFFSET_OUT_OF_RANGE: "`kbroker offsets` shows the start and end of each log",
    ErrorCode.REQUEST_TIMED_OUT: "--timeout gives it more time",
    ErrorCode.NOT_ENOUGH_REPLICAS: "`kbroker topics list --under-replicated` shows the topics",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: _ALLOW,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: _ALLOW,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: _ALLOW,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: _ALLOW,
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: _ALLOW,
    ErrorCode.SECURITY_DISABLED: "set authorizer.class.name in its settings (`kbroker docs security`)",
    ErrorCode.KAFKA_STORAGE_ERROR: "`kbroker status` names a log dir that is full or offline",
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: "set delegation.token.secret.key in its settings (`kbroker docs sasl`)",
    ErrorCode.INVALID_REPLICA_ASSIGNMENT: "`kbroker cluster describe` shows the brokers",
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: "log in with SASL or a certificate (`kbroker docs sasl`)",
    ErrorCode.NON_EMPTY_GROUP: "stop its members first",
    ErrorCode.GROUP_ID_NOT_FOUND: "`kbroker groups list` shows the groups and their types; for type share: "
    "`kbroker share-groups`",
    ErrorCode.UNKNOWN_MEMBER_ID: "`kbroker groups describe --members` shows the members",
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS: "`kbroker topics reassignments` shows those in progress",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "stop the members that read it first",
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "`kbroker transactions list` shows the ids",
    ErrorCode.INVALID_RECORD: "a compacted topic needs keys, a topic with schema validation needs schema ids",
}


def with_hint(reason: str, code: ErrorCode) -> str:
    """The reason, followed by the next step if there is one."""
    hint = _HINTS.get(code)
    return reason if hint is None else f"{reason.removesuffix('.')}; {hint}"
