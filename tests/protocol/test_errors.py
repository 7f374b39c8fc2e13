"""Error codes have Kafka's numbers and retry classes."""

from kio.schema.errors import ErrorCode as KioErrorCode

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
