"""Which names a topic may have."""

import pytest

from kbroker.control.metadata.topic_name import is_valid, validate
from kbroker.protocol.errors import ErrorCode, KafkaError


@pytest.mark.parametrize("name", ["a", "A-1_b.c", "w" * 249, "...", "__consumer_offsets", "-"])
def test_legal_names_pass(name: str) -> None:
    validate(name)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "the empty string is not allowed"),
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        ("w" * 250, "longer than the max allowed length 249"),
        ("a b", "ASCII alphanumerics"),
        ("ä", "ASCII alphanumerics"),
        ("a/b", "ASCII alphanumerics"),
        ("a\n", "ASCII alphanumerics"),
    ],
)
def test_illegal_names_are_refused_with_the_reason(name: str, why: str) -> None:
    with pytest.raises(KafkaError) as refused:
        validate(name)
    assert refused.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert why in refused.value.message
    assert not is_valid(name)
