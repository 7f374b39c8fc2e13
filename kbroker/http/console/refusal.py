"""Errors of the console's API: an HTTP status, a short code, one line of text."""

from http import HTTPStatus

from kbroker.protocol.errors import ErrorCode

MAX_TEXT = 500
_STATUS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: HTTPStatus.NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_ID: HTTPStatus.NOT_FOUND,
    ErrorCode.GROUP_ID_NOT_FOUND: HTTPStatus.NOT_FOUND,
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: HTTPStatus.NOT_FOUND,
    ErrorCode.RESOURCE_NOT_FOUND: HTTPStatus.NOT_FOUND,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: HTTPStatus.FORBIDDEN,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: HTTPStatus.FORBIDDEN,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: HTTPStatus.FORBIDDEN,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: HTTPStatus.FORBIDDEN,
    ErrorCode.TOPIC_ALREADY_EXISTS: HTTPStatus.CONFLICT,
    ErrorCode.NON_EMPTY_GROUP: HTTPStatus.CONFLICT,
    ErrorCode.UNKNOWN_MEMBER_ID: HTTPStatus.CONFLICT,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: HTTPStatus.SERVICE_UNAVAILABLE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: HTTPStatus.SERVICE_UNAVAILABLE,
    ErrorCode.NOT_COORDINATOR: HTTPStatus.SERVICE_UNAVAILABLE,
    ErrorCode.LEADER_NOT_AVAILABLE: HTTPStatus.SERVICE_UNAVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: HTTPStatus.SERVICE_UNAVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR: HTTPStatus.SERVICE_UNAVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: HTTPStatus.GATEWAY_TIMEOUT,
    ErrorCode.UNKNOWN_SERVER_ERROR: HTTPStatus.BAD_GATEWAY,
}


class Refusal(Exception):
    """Ends a request with an error. code: a name for programs; Kafka's name of the error if the
    broker refused."""

    def __init__(self, status: HTTPStatus, code: str, text: str) -> None:
        line = " ".join(text.split())
        super().__init__(line)
        self.status = status
        self.code = code
        self.text = line if len(line) <= MAX_TEXT else line[: MAX_TEXT - 3] + "..."


class NotServed(Refusal):
    """The broker has done nothing for the request: it was not sent, for example."""


class QuotaUsedUp(NotServed):
    """A quota of the user is used up: the broker has returned nothing, or would let the request
    wait."""


def bad_request(text: str) -> Refusal:
    """The request is invalid."""
    return Refusal(HTTPStatus.BAD_REQUEST, "bad_request", text)


def not_found(text: str) -> Refusal:
    """The named thing does not exist."""
    return Refusal(HTTPStatus.NOT_FOUND, "not_found", text)


def not_served(text: str) -> NotServed:
    """The broker cannot be asked now."""
    return NotServed(HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", text)


def quota_used_up(about: str) -> QuotaUsedUp:
    """The user has to wait."""
    text = f"{about}: a quota of this user is used up; try again"
    return QuotaUsedUp(HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", text)


def unavailable(text: str) -> Refusal:
    """The broker is unavailable now."""
    return Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", text)


def check(code: int, about: str, message: str | None = None) -> None:
    """Raise the Refusal for an error code of the broker; nothing for NONE."""
    if code == 0:
        return
    try:
        error = ErrorCode(code)
    except ValueError:
        raise Refusal(HTTPStatus.BAD_GATEWAY, f"ERROR_{code}", f"{about}: error {code}") from None
    status = _STATUS.get(error, HTTPStatus.BAD_REQUEST)
    raise Refusal(status, error.name, f"{about}: {message or error.message}")


def name_of(code: int) -> str:
    """Kafka's name of an error code."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"ERROR_{code}"
