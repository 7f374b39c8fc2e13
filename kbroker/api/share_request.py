"""Checks of the sender of share requests."""

from kbroker.protocol.errors import ErrorCode, KafkaError

MAX_MEMBER_ID = 36
"""Characters of a UUID in its long form. Clients choose their ids; not all of them are UUIDs."""


def code_and_text(error: KafkaError | None) -> tuple[ErrorCode, str | None]:
    """Code and text of a partition's result. Only errors with their own text have one, which
    may be that of the code."""
    if error is None:
        return ErrorCode.NONE, None
    return error.code, error.own_words


def check_member_id(member_id: str | None) -> str:
    """The member id. Raises INVALID_REQUEST if it is missing or too long."""
    if not member_id or len(member_id) > MAX_MEMBER_ID:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    return member_id


def check_sender(group_id: str | None, member_id: str | None) -> tuple[str, str]:
    """(group id, member id). Raises INVALID_REQUEST if the group id is null, or for the member
    id."""
    if group_id is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    return group_id, check_member_id(member_id)
