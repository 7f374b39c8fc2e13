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


REFUSED = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}


def test_an_answer_that_the_authorizer_refused_is_known_as_such() -> None:
    counts = ErrorCounts(private())
    alone = {code for code in ErrorCode if counts.count(client(18), ApiVersionsResponse(error_code=code))}
    assert alone == REFUSED
    parts = {
        code
        for code in ErrorCode
        if counts.count(
            client(19),
            CreateTopicsResponse(topics=[CreatableTopicResult(error_code=code), CreatableTopicResult()]),
        )
    }
    assert parts == REFUSED
    assert not counts.count(client(3), b"frame")


def test_a_code_that_this_version_does_not_know_is_counted_as_the_last_one() -> None:
    slots = private()
    ErrorCounts(slots).count(client(18), ApiVersionsResponse(error_code=max(ErrorCode) + 7))
    name = ErrorCode(max(ErrorCode)).name
    assert slots.words[bind("kbroker_request_errors_total", api="ApiVersions", error=name)] == 1


def test_an_answer_without_a_list_has_no_codes_in_it() -> None:
    assert list(error_codes(CreateTopicsResponse(topics=[]))) == []
    assert list(error_codes(MetadataResponse(topics=[]))) == [0]


def test_answers_without_an_error_are_counted_by_their_api() -> None:
    slots = private()
    counts = ErrorCounts(slots)
    for api_key in (3, 18, 18):
        counts.count_none(api_key)
    found = [
        slots.words[bind("kbroker_request_errors_total", api=api, error="NONE")]
        for api in ("Metadata", "ApiVersions", "Fetch")
    ]
    assert found == [1, 2, 0]
