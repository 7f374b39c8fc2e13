"""Log dirs and logs as the answers of DescribeLogDirs list them."""

from typing import Any

import pytest

from kbroker.cli.connection import Connection
from kbroker.cli.failures import CommandFailed
from kbroker.cli.log_dirs import (
    DescribedLog,
    DescribedLogDir,
    all_log_dirs,
    described,
    hidden_topics,
    refuse_hidden,
)
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


def log(partition: int, size: int, *, future: bool = False) -> dict[str, Any]:
    return {"partition_index": partition, "partition_size": size, "offset_lag": 3, "is_future_key": future}


def test_each_log_dir_of_each_broker_has_its_logs() -> None:
    topics = [
        {"name": "a", "partitions": [log(0, 10), log(1, 20)]},
        {"name": "b", "partitions": [log(0, 5, future=True)]},
    ]
    online = {"log_dir": "/x", "error_code": 0, "total_bytes": 90, "usable_bytes": 7, "topics": topics}
    offline = {"log_dir": "/y", "error_code": 56, "topics": []}
    first, second, third = described(
        [{"broker": 1, "log_dirs": [online, offline]}, {"broker": 2, "log_dirs": [online]}]
    )
    logs = (
        DescribedLog("a", 0, 10, 3, False),
        DescribedLog("a", 1, 20, 3, False),
        DescribedLog("b", 0, 5, 3, True),
    )
    assert first == DescribedLogDir(1, "/x", 0, 90, 7, False, logs)
    assert first.bytes == 35
    assert second == DescribedLogDir(1, "/y", 56, None, None, False, ())
    assert (third.broker, third.path) == (2, "/x")


def test_an_answer_without_log_dirs_is_a_refusal() -> None:
    """kafka-python drops the error of the whole answer."""
    with pytest.raises(
        CommandFailed, match="CLUSTER_AUTHORIZATION_FAILED: log dirs need Describe on the cluster"
    ):
        list(described([{"broker": 1, "log_dirs": []}]))


def test_every_log_dir_of_an_answer_is_listed_with_the_logs_of_all_topics(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = DescribeLogDirsTopic("hidden", [DescribeLogDirsPartition(2, 10, 0, True)])
    results = [DescribeLogDirsResult(0, "/x", [topic], 90, 7, True), DescribeLogDirsResult(56, "/y")]
    answers = {1: DescribeLogDirsResponse(results=results)}
    requests = []

    def ask(_: object, api: ApiKey, request: DescribeLogDirsRequest) -> dict[int, DescribeLogDirsResponse]:
        requests.append((api, request.topics))
        return answers

    monkeypatch.setattr("kbroker.cli.log_dirs.ask_every_broker", ask)
    broker = Connection("", {}, 1)
    assert all_log_dirs(broker) == [
        DescribedLogDir(1, "/x", 0, 90, 7, True, (DescribedLog("hidden", 2, 10, 0, True),)),
        DescribedLogDir(1, "/y", 56, -1, -1, False, ()),
    ]
    assert requests == [(ApiKey.DESCRIBE_LOG_DIRS, None)]
    for refused in (DescribeLogDirsResponse(), DescribeLogDirsResponse(error_code=31)):
        answers[1] = refused
        with pytest.raises(CommandFailed, match="CLUSTER_AUTHORIZATION_FAILED: log dirs need Describe"):
            all_log_dirs(broker)


def test_topics_that_only_log_dirs_list_are_hidden() -> None:
    logs = tuple(DescribedLog(name, 0, 1, 0, False) for name in ("d", "a", "b", "c"))
    hidden = hidden_topics([DescribedLogDir(1, "/x", 0, None, None, False, logs)], {"a"})
    assert hidden == ["b", "c", "d"]
    refuse_hidden([], "nothing happens")
    with pytest.raises(
        CommandFailed, match="may not describe b, c, d: they stay; log in with a user who has Describe"
    ):
        refuse_hidden(hidden, "they stay")
    with pytest.raises(CommandFailed, match=r"b, c, d, \.\.\.: they stay"):
        refuse_hidden([*hidden, "e"], "they stay")
