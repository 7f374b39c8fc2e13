"""Filters of quotas: a component matches one name, the default entity, or any of a type; a strict
filter matches entities of exactly its types."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kbroker.config.client_quotas import QuotaTable
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from tests.api.in_process import ask
from tests.control.fakes import World, world

ALICE = (("user", "alice"),)
ANYONE = (("user", None),)
CLIENT = (("client-id", "c"),)
BOTH = (("client-id", "c"), ("user", "alice"))
ADDRESS = (("ip", "10.0.0.1"),)
ALL = [ALICE, ANYONE, CLIENT, BOTH, ADDRESS]
EXACT, DEFAULT, SPECIFIED = 0, 1, 2


@pytest.fixture
def made(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path) as one:
        one.broker.quotas = QuotaTable({entity: {"request_percentage": 5.0} for entity in ALL})
        yield one


def described(made: World, components: list[ComponentData], strict: bool) -> Any:
    request = DescribeClientQuotasRequest(components, strict)
    return asyncio.run(ask(made.broker, ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, request))


@pytest.mark.parametrize(
    ("components", "entities", "strictly"),
    [
        ([], ALL, []),
        ([("user", EXACT, "alice")], [ALICE, BOTH], [ALICE]),
        ([("user", EXACT, "bob")], [], []),
        ([("user", DEFAULT, None)], [ANYONE], [ANYONE]),
        ([("user", SPECIFIED, None)], [ALICE, ANYONE, BOTH], [ALICE, ANYONE]),
        ([("client-id", SPECIFIED, None)], [CLIENT, BOTH], [CLIENT]),
        ([("client-id", DEFAULT, None)], [], []),
        ([("client-id", EXACT, "c"), ("user", SPECIFIED, None)], [BOTH], [BOTH]),
        ([("client-id", SPECIFIED, None), ("user", EXACT, "alice")], [BOTH], [BOTH]),
        ([("client-id", EXACT, "c"), ("user", DEFAULT, None)], [], []),
        ([("ip", SPECIFIED, None)], [ADDRESS], [ADDRESS]),
    ],
)
def test_a_filter_matches_entities_that_have_its_types_strictly_no_others(
    made: World,
    components: list[tuple[str, int, str | None]],
    entities: list[tuple[tuple[str, str | None], ...]],
    strictly: list[tuple[tuple[str, str | None], ...]],
) -> None:
    filters = [ComponentData(*each) for each in components]
    for strict, expected in ((False, entities), (True, strictly)):
        answer = described(made, filters, strict)
        found = [tuple((one.entity_type, one.entity_name) for one in each.entity) for each in answer.entries]
        assert sorted(map(sorted, found), key=str) == sorted(map(sorted, expected), key=str)


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([("", EXACT, "a")], ErrorCode.INVALID_REQUEST),
        ([("user", EXACT, "a"), ("user", SPECIFIED, None)], ErrorCode.INVALID_REQUEST),
        ([("user", SPECIFIED, None), ("user", EXACT, "a")], ErrorCode.INVALID_REQUEST),
        ([("group", EXACT, "a")], ErrorCode.UNSUPPORTED_VERSION),
        ([("user", -1, None)], ErrorCode.INVALID_REQUEST),
        ([("user", 3, None)], ErrorCode.INVALID_REQUEST),
        ([("user", EXACT, None)], ErrorCode.INVALID_REQUEST),
        ([("user", DEFAULT, "a")], ErrorCode.INVALID_REQUEST),
        ([("user", SPECIFIED, "a")], ErrorCode.INVALID_REQUEST),
        ([("ip", SPECIFIED, None), ("user", EXACT, "a")], ErrorCode.INVALID_REQUEST),
        ([("client-id", EXACT, "a"), ("ip", DEFAULT, None)], ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_contradictory_filter_is_refused_as_a_whole(
    made: World, components: list[tuple[str, int, str | None]], code: ErrorCode
) -> None:
    answer = described(made, [ComponentData(*each) for each in components], False)
    assert (answer.error_code, answer.entries) == (code, None)
