"""The time in which a start loads the committed offsets: `python -m bench.coordinator_load --gb 1`.

A kbroker creates `__consumer_offsets` and stops. Then its logs are filled with commits of GROUPS
groups, made by the encoder of the broker's own records, and the broker starts again. It logs how
many records it has replayed, and in how many seconds. The start also checks the logs, as after a
crash.
"""

import argparse
import re
import shutil
import tempfile
import time
from itertools import count, islice
from pathlib import Path

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from kbroker.control.coordinator.key_hash import positive_hash
from kbroker.control.groups.offset_record import CommittedOffset, encode_offset, encode_offset_key
from kbroker.protocol.records import build_batch
from tests.peer.kbroker_node import KBroker

GROUPS = 200
PARTITIONS = 100
"""Partitions of a topic. Each group commits offsets of all of them."""
LOGS = 50
RECORDS = 100
"""Records of a batch."""
REPLAYED = re.compile(r"(\d+) records replayed in ([\d.]+) s")
LOADED_S = 600


def commits(group: str) -> list[bytes]:
    """Batches that commit every partition once."""
    made = []
    keys = [encode_offset_key(group, "a-topic-of-many", partition) for partition in range(PARTITIONS)]
    for start in range(0, PARTITIONS, RECORDS):
        value = encode_offset(CommittedOffset(1_000_000 + start, 3, "", 1_700_000_000_000))
        made.append(
            build_batch([(key, value, (), 1_700_000_000_000) for key in keys[start : start + RECORDS]])
        )
    return made


def fill(log: Path, groups: list[str], size: int) -> None:
    """Replace a log by so many bytes of commits, the groups by turns."""
    for old in log.iterdir():
        if old.name[:20].isdigit():
            old.unlink()
    cycle = [batch for group in groups for batch in commits(group)]
    with open(log / f"{0:020d}.log", "wb") as out:
        offset = 0
        for number in count():
            batch = cycle[number % len(cycle)]
            if out.tell() + len(batch) > size:
                break
            out.write(offset.to_bytes(8) + batch[8:])
            offset += RECORDS


def measure(folder: Path, size: int, groups: int) -> tuple[int, float, float]:
    """(records, seconds of replay, seconds from the start of the broker until all are loaded)."""
    node = KBroker(folder, {"log.cleaner.enable": "false", "offsets.topic.num.partitions": str(LOGS)})
    node.start()
    try:
        offset = ConsumerGroupTopicPartitions("group-0", [TopicPartition("t", 0, 1)])
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        admin.alter_consumer_group_offsets([offset])["group-0"].exception(60)  # there is no topic t
        node.stop()
        by_log: dict[int, list[str]] = {}
        for name in islice((f"group-{number}" for number in count()), groups):
            by_log.setdefault(positive_hash(name) % LOGS, []).append(name)
        for number, names in by_log.items():
            fill(node.data_dir / f"__consumer_offsets-{number}", names, size // len(by_log))
        for saved in node.data_dir.glob(".kafka_cleanshutdown"):
            saved.unlink()
        seen = len(node.log_file.read_text())
        began = time.monotonic()
        node.start()
        while len(found := REPLAYED.findall(node.log_file.read_text()[seen:])) < len(by_log):
            if time.monotonic() > began + LOADED_S:
                raise SystemExit(f"{len(found)} of {len(by_log)} logs are loaded:\n{node.logs()}")
            time.sleep(0.05)
        whole_s = time.monotonic() - began
    finally:
        node.kill9()
    return sum(int(records) for records, _ in found), sum(float(seconds) for _, seconds in found), whole_s


def main() -> None:
    made = argparse.ArgumentParser(prog="python -m bench.coordinator_load", description=__doc__)
    made.add_argument("--gb", type=float, default=1.0)
    made.add_argument("--groups", type=int, default=GROUPS)
    options = made.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="kbroker-load-"))
    try:
        records, replay_s, whole_s = measure(folder, int(options.gb * 1e9), options.groups)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{records} records replayed in {replay_s:.2f} s, {whole_s:.1f} s after the start of the broker")


if __name__ == "__main__":
    main()
