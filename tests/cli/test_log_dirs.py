"""Log dirs and logs as the answers of DescribeLogDirs list them."""

from typing import Any

from kbroker.cli.log_dirs import DescribedLog, DescribedLogDir, described


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
