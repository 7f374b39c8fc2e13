"""JoinGroups that fail as a whole."""

import asyncio
from pathlib import Path

import pytest

from kbroker.api.join_group import refuse
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode, KafkaError
from kbroker.protocol.messages.join_group import JoinGroupRequest
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
