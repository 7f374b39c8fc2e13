"""Checks of the sender of share requests."""

import base64
import binascii

from kbroker.protocol.errors import ErrorCode, KafkaError

UUID_BYTES = 16


def code_and_text(error: KafkaError | None) -> tuple[ErrorCode, str | None]:
    """Code and text of a partition's result. Only errors with their own text have one."""
    if error is None:
        return ErrorCode.NONE, None
    return error.code, None if error.message == error.code.message else error.message


def check_sender(group_id: str | None, member_id: str | None) -> tuple[str, str]:
    """(group id, member id). Raises INVALID_REQUEST if one is missing or the member id is not a
    UUID."""
    if not group_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Group id is missing.")
    try:
        valid = member_id is not None and len(base64.urlsafe_b64decode(member_id + "==")) == UUID_BYTES
    except (binascii.Error, ValueError):
        valid = False
    if not valid or member_id is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Member id is not a UUID.")
    return group_id, member_id
