"""DescribeQuorum: one voter, this node."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    RequestPartitionData,
    RequestTopicData,
)
from kbroker.protocol.schema import ZERO_UUID
from tests.api.in_process import ask
from tests.control.fakes import world

METADATA = DescribeQuorumRequest([RequestTopicData("__cluster_metadata", [RequestPartitionData(0)])])
FIRST, SECOND = "AQEBAQEBAQEBAQEBAQEBAQ", "AgICAgICAgICAgICAgICAg"


@pytest.mark.parametrize(
    ("known", "directory_id"),
    [((FIRST, SECOND), b"\1" * 16), ((), ZERO_UUID), (("no id", SECOND), ZERO_UUID)],
)
def test_the_voter_has_the_id_of_the_first_log_dir(
    tmp_path: Path, known: tuple[str, ...], directory_id: bytes
) -> None:
    with world(tmp_path, dirs=2) as made:
        made.directory_ids = dict(zip(made.dirs, known, strict=False))
        made.reboot()
        answer: Any = asyncio.run(ask(made.broker, ApiKey.DESCRIBE_QUORUM, 2, METADATA))
        (voter,) = answer.topics[0].partitions[0].current_voters
        assert voter.replica_id == made.broker.node_id
        assert voter.replica_directory_id == directory_id
