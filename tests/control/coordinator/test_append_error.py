"""What clients see of a failed append."""

from kbroker.control.coordinator.append_error import coordinator_error
from kbroker.protocol.errors import ErrorCode


def test_append_errors_become_coordinator_errors() -> None:
    assert coordinator_error(ErrorCode.NOT_ENOUGH_REPLICAS) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert coordinator_error(ErrorCode.KAFKA_STORAGE_ERROR) is ErrorCode.NOT_COORDINATOR
    assert coordinator_error(ErrorCode.RECORD_LIST_TOO_LARGE) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert (
        coordinator_error(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    )
    assert coordinator_error(ErrorCode.INVALID_PRODUCER_EPOCH) is ErrorCode.INVALID_PRODUCER_EPOCH
