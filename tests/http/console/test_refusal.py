"""Errors of the broker become statuses of HTTP, with one line of text."""

import pytest

from kbroker.http.console.refusal import (
    MAX_TEXT,
    NotServed,
    QuotaUsedUp,
    Refusal,
    bad_request,
    check,
    name_of,
    not_found,
    not_served,
    quota_used_up,
    unavailable,
)
from kbroker.protocol.errors import ErrorCode


@pytest.mark.parametrize(
    ("status", "codes"),
    [
        (
            404,
            (
                "UNKNOWN_TOPIC_OR_PARTITION UNKNOWN_TOPIC_ID GROUP_ID_NOT_FOUND TRANSACTIONAL_ID_NOT_FOUND "
                "RESOURCE_NOT_FOUND"
            ),
        ),
        (
            403,
            (
                "TOPIC_AUTHORIZATION_FAILED GROUP_AUTHORIZATION_FAILED CLUSTER_AUTHORIZATION_FAILED "
                "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
            ),
        ),
        (409, "TOPIC_ALREADY_EXISTS NON_EMPTY_GROUP UNKNOWN_MEMBER_ID"),
        (
            503,
            (
                "COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR LEADER_NOT_AVAILABLE "
                "NOT_LEADER_OR_FOLLOWER KAFKA_STORAGE_ERROR"
            ),
        ),
        (504, "REQUEST_TIMED_OUT"),
        (502, "UNKNOWN_SERVER_ERROR"),
        (400, "INVALID_CONFIG INVALID_PARTITIONS POLICY_VIOLATION"),
    ],
)
def test_an_error_of_the_broker_has_a_status_and_kafkas_name(status: int, codes: str) -> None:
    for name in codes.split():
        error = ErrorCode[name]
        with pytest.raises(Refusal) as refused:
            check(error, "topic t")
        assert (refused.value.status, refused.value.code) == (status, name)
        assert refused.value.text == f"topic t: {error.message}"


def test_no_error_is_no_refusal() -> None:
    check(0, "topic t")


def test_the_brokers_own_words_replace_those_of_the_code() -> None:
    with pytest.raises(Refusal) as refused:
        check(ErrorCode.INVALID_CONFIG, "topic t", "retention.ms is no number")
    assert refused.value.text == "topic t: retention.ms is no number"


def test_an_unknown_error_has_its_number() -> None:
    with pytest.raises(Refusal) as refused:
        check(9999, "topic t")
    assert (refused.value.status, refused.value.code) == (502, "ERROR_9999")
    assert refused.value.text == "topic t: error 9999"
    assert (name_of(9999), name_of(3)) == ("ERROR_9999", "UNKNOWN_TOPIC_OR_PARTITION")


def test_a_text_is_one_line_of_bounded_length() -> None:
    assert bad_request(" a\n b\t c ").text == "a b c"
    assert bad_request("x" * MAX_TEXT).text == "x" * MAX_TEXT
    cut = bad_request("x" * (MAX_TEXT + 1)).text
    assert (len(cut), cut[-4:]) == (MAX_TEXT, "x...")


@pytest.mark.parametrize(
    ("refusal", "status", "code", "kind"),
    [
        (bad_request("t"), 400, "bad_request", Refusal),
        (not_found("t"), 404, "not_found", Refusal),
        (unavailable("t"), 503, "unavailable", Refusal),
        (not_served("t"), 503, "unavailable", NotServed),
        (quota_used_up("t"), 503, "unavailable", QuotaUsedUp),
    ],
)
def test_a_refusal_has_a_status_a_code_and_a_kind(
    refusal: Refusal, status: int, code: str, kind: type[Refusal]
) -> None:
    assert (refusal.status, refusal.code, type(refusal)) == (status, code, kind)
    assert refusal.text.startswith("t")
    assert isinstance(quota_used_up("t"), NotServed), "it was not served either"
