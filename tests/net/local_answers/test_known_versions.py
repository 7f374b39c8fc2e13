"""Requests for ApiVersions have numbers, until all of them are forgotten."""

import pytest

from kbroker.net.api_versions import KnownRequest
from kbroker.net.local_answers.known_versions import KnownVersions
from kbroker.net.rows import AnswerTable
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.frame import encode_request
from kbroker.protocol.messages.api_versions import ApiVersionsRequest
from tests.net.tables import new_tables


def request(software: str, number: int = 1) -> bytes:
    """A request without its size."""
    return encode_request(ApiKey.API_VERSIONS, 3, number, "c", ApiVersionsRequest(software, "1"))[4:]


def known(software: str) -> KnownRequest:
    return KnownRequest(3, "c", software, "1", b"\0\0\0\4\0\0\0\0")


@pytest.fixture
def versions() -> KnownVersions:
    return KnownVersions(new_tables())


def test_a_request_keeps_its_number_whatever_its_correlation_id(versions: KnownVersions) -> None:
    for correlation_id in (1, 2, -3):
        versions.add(request("java", correlation_id), known("java"))
        versions.add(request("librdkafka", correlation_id), known("librdkafka"))
    assert [versions.at(number).software_name for number in (0, 1)] == ["java", "librdkafka"]
    with pytest.raises(KeyError):
        versions.at(2)


def test_numbers_begin_again_after_all_were_forgotten(versions: KnownVersions) -> None:
    versions.add(request("java"), known("java"))
    versions.forget()
    with pytest.raises(KeyError):
        versions.at(0)
    versions.add(request("librdkafka"), known("librdkafka"))
    assert versions.at(0).software_name == "librdkafka"


def test_requests_that_do_not_fit_have_no_number(versions: KnownVersions) -> None:
    for number in range(AnswerTable.MAX_ANSWERS + 2):
        versions.add(request(f"s{number}"), known(f"s{number}"))
    last = AnswerTable.MAX_ANSWERS - 1
    assert versions.at(last).software_name == f"s{last}"
    with pytest.raises(KeyError):
        versions.at(last + 1)
