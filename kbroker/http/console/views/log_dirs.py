"""Log dirs: their partitions and the free space of their file systems."""

from typing import Any

from kbroker.http.console.refusal import check, name_of
from kbroker.http.console.request import Request
from kbroker.http.console.schema import BOOL, INT, TEXT, fields, many, maybe
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.messages.describe_log_dirs import DescribeLogDirsRequest

LARGEST = 50
LOG_DIRS = fields(
    log_dirs=many(
        fields(
            path=TEXT,
            node=INT,
            error=maybe(TEXT),
            online=BOOL,
            size_bytes=maybe(INT),
            free_bytes=maybe(INT),
            full_in_s=maybe(INT),
            partition_count=INT,
            partition_bytes=INT,
            largest=many(fields(topic=TEXT, partition=INT, bytes=INT, moving=BOOL)),
        )
    )
)


def log_dirs(request: Request) -> dict[str, Any]:
    """Every log dir of every node, with its largest partitions."""
    space = {row["path"]: row for row in request.live.latest()["log_dirs"]}
    found = []
    for node in request.nodes:
        answer = request.caller.ask(ApiKey.DESCRIBE_LOG_DIRS, DescribeLogDirsRequest(None), node=node)
        check(answer.error_code, "log dirs")
        for result in answer.results:
            known = space.get(result.log_dir, {})
            rows = [
                {
                    "topic": topic.name,
                    "partition": partition.partition_index,
                    "bytes": partition.partition_size,
                    "moving": partition.is_future_key,
                }
                for topic in result.topics
                for partition in topic.partitions
            ]
            rows.sort(key=lambda row: (-row["bytes"], row["topic"], row["partition"]))
            found.append(
                {
                    "path": result.log_dir,
                    "node": node,
                    "error": name_of(result.error_code) if result.error_code else None,
                    "online": result.error_code == 0,
                    "size_bytes": known.get("size_bytes"),
                    "free_bytes": known.get("free_bytes"),
                    "full_in_s": known.get("full_in_s"),
                    "partition_count": len(rows),
                    "partition_bytes": sum(row["bytes"] for row in rows),
                    "largest": rows[:LARGEST],
                }
            )
    return {"log_dirs": found}
