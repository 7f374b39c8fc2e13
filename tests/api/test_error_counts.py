"""Error codes of answers: those that Kafka's errorCounts would find."""

from kbroker.api.error_counts import ErrorCounts, error_codes
from kbroker.ipc.messages import ClientRequest
from kbroker.metrics.slots import bind, private
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.api_versions import ApiVersionsResponse
from kbroker.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from kbroker.protocol.messages.join_group import JoinGroupResponse
from kbroker.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

EXISTS, MISSING = ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def client(api_key: int) -> ClientRequest:
    return ClientRequest(1, api_key, 0, 0, None, "PLAINTEXT", "h", 1, "User:ANONYMOUS", b"")


def test_the_code_of_the_answer_itself() -> None:
    assert list(error_codes(JoinGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))) == [27]


def test_codes_of_nested_structs_are_counted() -> None:
    answer = MetadataResponse(
        topics=[
            MetadataResponseTopic(error_code=MISSING),
            MetadataResponseTopic(partitions=[MetadataResponsePartition(), MetadataResponsePartition()]),
        ]
    )
    assert sorted(error_codes(answer)) == [0, 0, 0, 0, 3]


def test_counts_go_to_the_slots_of_the_api() -> None:
    slots = private()
    counts = ErrorCounts(slots)
    answer = CreateTopicsResponse(
        topics=[CreatableTopicResult(error_code=EXISTS), CreatableTopicResult(error_code=EXISTS)]
    )
    counts.count(client(19), answer)
    assert slots.words[bind("kbroker_request_errors_total", api="CreateTopics", error=EXISTS.name)] == 2


def test_a_ready_made_answer_counts_as_no_error() -> None:
    slots = private()
    ErrorCounts(slots).count(client(3), b"frame")
    assert slots.words[bind("kbroker_request_errors_total", api="Metadata", error="NONE")] == 1


def test_the_lowest_and_the_highest_code_have_slots() -> None:
    slots = private()
    counts = ErrorCounts(slots)
    for code in (min(ErrorCode), max(ErrorCode)):
        counts.count(client(18), ApiVersionsResponse(error_code=code))
        assert (
            slots.words[bind("kbroker_request_errors_total", api="ApiVersions", error=ErrorCode(code).name)]
            == 1
        )
