"""The registry answers as Karapace does, whose answers to the same requests are recorded; where it
does not, the reason is here."""

import json

import pytest

from tests.compat.registry_requests import LISTEN, url_of
from tests.compat.registry_script import RECORDED, REQUESTS, answers, name_of
from tests.conftest import BrokerFactory

pytestmark = pytest.mark.compat

NO_REFERENCES = "Karapace 3.16 refuses references of Avro schemas; Confluent's registry has them"
DIFFERENCES = {
    35: "Karapace gives the level that counts from now on; Confluent's registry the deleted one",
    **dict.fromkeys((47, 49, 50, 51, 61, 62), NO_REFERENCES),
    66: "of a deleted subject; Confluent's registry has one code for all subjects without a mode",
}
"""Reasons by the position of the request."""


def test_the_same_requests_get_karapaces_answers(broker_factory: BrokerFactory) -> None:
    recorded = json.loads((RECORDED / "karapace.json").read_text())
    assert [row["request"] for row in recorded] == [name_of(request) for request in REQUESTS]
    ours = answers(url_of(broker_factory(LISTEN)))
    different = {
        place: (row["request"], row["answer"], list(answer))
        for place, (row, answer) in enumerate(zip(recorded, ours, strict=True))
        if row["answer"] != list(answer)
    }
    unexplained = {place: found for place, found in different.items() if place not in DIFFERENCES}
    assert not unexplained, json.dumps(unexplained, indent=1)
    assert set(DIFFERENCES) == set(different), "an explained difference is none"
