"""JoinGroups that fail as a whole."""

import asyncio
from pathlib import Path

import pytest

from kbroker.api.join_group import refuse
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tests.api.in_process import ask
from tests.control.fakes import world


@pytest.mark.parametrize(("version", "protocol"), [(0, ""), (6, ""), (7, None), (9, None)])
def test_the_answer_does_not_repeat_the_member_id(tmp_path: Path, version: int, protocol: str | None) -> None:
    request = JoinGroupRequest("group", 30_000, 30_000, "member")
    answer = refuse(request, KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL), version)
    assert (answer.member_id, answer.protocol_name) == ("", protocol)
    with world(tmp_path) as made:  # without coordinators
        found = asyncio.run(ask(made.broker, ApiKey.JOIN_GROUP, version, request))
        assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert (found.member_id, found.protocol_name) == ("", protocol)


@pytest.mark.parametrize(
    ("sizes", "is_refused"),
    [
        ([1_048_600], True),  # no batch holds it
        ([1_048_600, 10], False),  # one with the second protocol does
        ([10] * 300_000, True),
        ([1_000_000] * 4, False),
        ([1_000_000] * 5, True),
    ],
)
def test_metadata_that_could_never_be_stored_is_not_kept(
    tmp_path: Path, sizes: list[int], is_refused: bool
) -> None:
    """A group kept up to a hundred megabytes of each member, and compared them when it joined
    again."""
    protocols = [JoinGroupRequestProtocol(f"p{i}", bytes(size)) for i, size in enumerate(sizes)]
    request = JoinGroupRequest("group", 30_000, 30_000, "", protocol_type="consumer", protocols=protocols)
    with world(tmp_path) as made:  # without coordinators
        found = asyncio.run(ask(made.broker, ApiKey.JOIN_GROUP, 5, request))
    expected = ErrorCode.UNKNOWN_SERVER_ERROR if is_refused else ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert found.error_code == expected
