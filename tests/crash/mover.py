"""Moves of a topic's partitions between the log dirs of one node, by requests of a client."""

import time
from pathlib import Path

from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from kbroker.protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from kbroker.protocol.schema import Struct
from tests.compat.raw import SocketPeer
from tests.peer.kbroker_node import KBroker

TOPIC = "moved"


class Mover:
    """Asks a node for moves and looks where its replicas are."""

    def __init__(self, broker: KBroker, dirs: list[str], site: int = 0) -> None:
        self._broker = broker
        self._site = site
        self.dirs = dirs

    def _ask(self, api: ApiKey, version: int, request: Struct) -> Struct:
        """Again while control, which answers, is away."""
        peer = SocketPeer(int(self._broker.bootstrap.split(":")[1].split(",")[0]) + self._site)
        deadline = time.monotonic() + 90
        while (answer := peer.ask(api, version, request)) is None:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        return answer

    def alter(self, partition: int, log_dir: str, topic: str = TOPIC) -> int:
        spec = AlterReplicaLogDir(log_dir, [AlterReplicaLogDirTopic(topic, [partition])])
        answer = self._ask(ApiKey.ALTER_REPLICA_LOG_DIRS, 2, AlterReplicaLogDirsRequest([spec]))
        assert isinstance(answer, AlterReplicaLogDirsResponse)
        return answer.results[0].partitions[0].error_code

    def try_alter(self, partition: int, log_dir: str) -> int | None:
        """As `alter`; None when the broker dies over it."""
        try:
            return self.alter(partition, log_dir)
        except (OSError, AssertionError):
            return None

    def places(self, future: bool = False) -> dict[int, str]:
        """Log dir of each partition, or of each one's future replica."""
        answer = self._ask(ApiKey.DESCRIBE_LOG_DIRS, 4, DescribeLogDirsRequest(None))
        assert isinstance(answer, DescribeLogDirsResponse)
        return {
            one.partition_index: result.log_dir
            for result in answer.results
            for topic in result.topics
            if topic.name == TOPIC
            for one in topic.partitions
            if one.is_future_key == future
        }

    def other(self, log_dir: str) -> str:
        (found,) = (one for one in self.dirs if one != log_dir)
        return found

    def wait(self, expected: dict[int, str]) -> None:
        """Until the replicas are there; the old folders are put aside a moment later."""
        deadline = time.monotonic() + 120
        while (
            not expected.items() <= self.places().items()
            or self.places(future=True)
            or self._left_over(expected)
        ):
            assert time.monotonic() < deadline, (
                self.places(),
                self.places(future=True),
                self._left_over(expected),
            )
            time.sleep(0.05)

    def _left_over(self, expected: dict[int, str]) -> list[Path]:
        folders = [Path(self.other(log_dir), f"{TOPIC}-{index}") for index, log_dir in expected.items()]
        return [folder for folder in folders if folder.exists()]
