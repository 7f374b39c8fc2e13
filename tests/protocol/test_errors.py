"""Error codes have Kafka's numbers and retry classes."""

import pytest
from kio.schema.errors import ErrorCode as KioErrorCode

from kbroker.protocol.bounds import MAX_STRING_BYTES
from kbroker.protocol.errors import ErrorCode, KafkaError


def test_codes_names_and_retry_classes_are_those_of_kafka() -> None:
    kio = {code.name.upper(): (int(code), code.retriable) for code in KioErrorCode}
    ours = {code.name: (int(code), code.retriable) for code in ErrorCode}
    assert ours.items() >= kio.items()
    assert sorted(ErrorCode) == list(range(-1, 134))


def test_texts_of_codes_that_answers_carry_are_those_of_kafka() -> None:
    """Answers about elections, coordinators, share group offsets and permissions have no other
    words."""
    codes = (14, 15, 16, 24, 29, 30, 31, 35, 53, 80, 83, 84)
    assert [ErrorCode(code).message for code in codes] == [
        "The coordinator is loading and hence can't process requests.",
        "The coordinator is not available.",
        "This is not the correct coordinator.",
        "The group id is invalid.",
        "Topic authorization failed.",
        "Group authorization failed.",
        "Cluster authorization failed.",
        "The version of API is not supported.",
        "Transactional Id authorization failed.",
        "The preferred leader was not available.",
        "Eligible topic partition leaders are not available.",
        "Leader election not needed for topic partition.",
    ]


def test_an_error_shows_its_code_and_text() -> None:
    assert str(KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)) == (
        "OFFSET_OUT_OF_RANGE: the offset lies outside the log of the partition"
    )
    assert KafkaError(ErrorCode.INVALID_CONFIG, "retention.ms is not a number").message == (
        "retention.ms is not a number"
    )
    assert all(code.message for code in ErrorCode)


@pytest.mark.parametrize(
    ("message", "fits"),
    [
        ("x" * MAX_STRING_BYTES, True),
        ("x" * (MAX_STRING_BYTES + 1), False),
        ("\u00e9" * (MAX_STRING_BYTES // 2), True),
        ("\u00e9" * (MAX_STRING_BYTES // 2 + 1), False),
        ("\U0001f600" * (MAX_STRING_BYTES // 4), True),
        ("\U0001f600" * (MAX_STRING_BYTES // 4 + 1), False),
        ("", True),
    ],
)
def test_a_message_that_no_answer_can_carry_is_left_out(message: str, fits: bool) -> None:
    error = KafkaError(ErrorCode.INVALID_CONFIG, message)
    assert error.code is (ErrorCode.INVALID_CONFIG if fits else ErrorCode.UNKNOWN_SERVER_ERROR)
    assert error.own_words == (message if fits else None)
    assert error.message == (message if fits else ErrorCode.UNKNOWN_SERVER_ERROR.message)


def test_an_error_that_is_kept_holds_no_frames() -> None:
    try:
        try:
            raise ValueError
        except ValueError:
            raise KafkaError(ErrorCode.INVALID_CONFIG) from None
    except KafkaError as error:
        kept = error
    assert kept.__traceback__ is not None
    assert kept.without_frames() is kept
    assert (kept.__traceback__, kept.__context__, kept.own_words) == (None, None, None)
