"""Runs MirrorMaker 2 as a child process."""

import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from kbroker.cli.client_properties import to_java
from kbroker.cli.connection import Connection
from kbroker.cli.failures import CommandFailed
from kbroker.cli.mirror.jars import class_path, find_java
from kbroker.parent_death import signal_on_parent_death

MAIN = "org.apache.kafka.connect.mirror.MirrorMaker"
OFFSETS_TOPIC = "mm2-offsets.source.internal"
"""Topic at the target that holds the progress of each partition's copy. A later run continues from
it."""
HEARTBEATS = "heartbeats"
OWN_TOPICS = (
    OFFSETS_TOPIC,
    "mm2-configs.source.internal",
    "mm2-status.source.internal",
    "mm2-offset-syncs.source.internal",
    "source.checkpoints.internal",
    HEARTBEATS,
)
MAX_RECORD_BYTES = 256 << 20
NOT_COPIED = (
    r"kbroker[.].*,write[.]caching,message[.]timestamp[.].*,min[.]insync[.]replicas,"
    r"(follower|leader)[.]replication[.]throttled[.]replicas,unclean[.]leader[.]election[.]enable"
)
STOP_S = 60
_PLAIN = frozenset(range(0x21, 0x7F)) - {ord("\\")}
"""Characters of a value in a .properties file."""


_FIXED: Final = {
    "clusters": "source, target",
    "target->source.enabled": "false",
    "source->target.groups": ".*",
    # Its default has ".*[.]replica". Topics that look like heartbeats would get another name.
    "source->target.topics.exclude": "__.*,.*heartbeats",
    "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
    "offset-syncs.topic.location": "target",
    # Without it, records of aborted transactions would be copied.
    "source.consumer.isolation.level": "read_committed",
    "source.consumer.auto.offset.reset": "earliest",
    # Or else a topic that is deleted while it is copied is created again, with default partitions.
    "source.consumer.allow.auto.create.topics": "false",
    "source.consumer.max.partition.fetch.bytes": str(4 << 20),
    "target.producer.enable.idempotence": "true",
    "target.producer.max.in.flight.requests.per.connection": "5",
    "target.producer.max.request.size": str(MAX_RECORD_BYTES),
    "target.producer.buffer.memory": str(MAX_RECORD_BYTES),
    "target.producer.linger.ms": "5",
    "sync.topic.configs.enabled": "false",
    "sync.topic.acls.enabled": "false",
    "config.properties.exclude": NOT_COPIED,
    "emit.heartbeats.enabled": "false",
    "heartbeats.replication.enabled": "false",
    "emit.checkpoints.enabled": "true",
    "emit.checkpoints.interval.seconds": "5",
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": "5",
    "refresh.topics.interval.seconds": "10",
    "refresh.groups.interval.seconds": "10",
    "offset.flush.interval.ms": "2000",
    "scheduled.rebalance.max.delay.ms": "0",
    "offset.storage.partitions": "3",
    "status.storage.partitions": "1",
}
_FACTORS: Final = (
    "replication.factor",
    "heartbeats.topic.replication.factor",
    "checkpoints.topic.replication.factor",
    "offset-syncs.topic.replication.factor",
    "offset.storage.replication.factor",
    "status.storage.replication.factor",
    "config.storage.replication.factor",
)
"""Settings whose value is the replication factor."""


def engine_settings(
    source: Connection,
    target: Connection,
    topics: Sequence[str],
    replication_factor: int,
    tasks: int,
    exact: bool,
) -> dict[str, str]:
    """MirrorMaker's properties. topics: names, none for all. exact: records and positions in one
    transaction."""
    settings = {
        **_FIXED,
        "source.bootstrap.servers": source.bootstrap,
        "target.bootstrap.servers": target.bootstrap,
        "source->target.enabled": "true",
        "source->target.topics": ",".join(_pattern(name) for name in topics) or ".*",
        "tasks.max": str(tasks),
        "target.exactly.once.source.support": "enabled" if exact else "disabled",
        **dict.fromkeys(_FACTORS, str(replication_factor)),
    }
    for alias, broker in (("source", source), ("target", target)):
        settings |= {f"{alias}.{key}": value for key, value in to_java(broker.settings).items()}
    return settings


def _pattern(name: str) -> str:
    """A topic's name as Java's regular expression."""
    return name.replace(".", "[.]")


def write_properties(path: Path, settings: dict[str, str]) -> None:
    """Write a file that only its owner can read: it may contain passwords."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
        for key, value in settings.items():
            file.write(f"{key}={_escaped(value)}\n")


def _escaped(value: str) -> str:
    """A value as Java reads it: from Latin-1, and without the spaces at its start."""
    units = value.encode("utf-16-be", "surrogatepass")
    numbers = [int.from_bytes(units[at : at + 2]) for at in range(0, len(units), 2)]
    return "".join(
        chr(number) if number in _PLAIN or (number == 0x20 and at) else f"\\u{number:04x}"
        for at, number in enumerate(numbers)
    )


class Engine:
    """A running MirrorMaker 2. The end of the `with` block stops it, after it has committed its
    positions."""

    def __init__(self, settings: dict[str, str], kafka_home: Path | None, heap: str, log: Path) -> None:
        self.settings = settings
        self.log = log
        self.heap = heap
        self.kafka_home = kafka_home
        self.process: subprocess.Popen[bytes] | None = None
        self._folder = tempfile.TemporaryDirectory(prefix="kbroker-mirror-")

    def __enter__(self) -> Self:
        libraries = class_path(self.kafka_home)
        properties = Path(self._folder.name, "mirror.properties")
        write_properties(properties, self.settings)
        flags = (
            f"-Xmx{self.heap}",
            "-XX:+ExitOnOutOfMemoryError",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
        )
        with open(self.log, "ab") as out:
            self.process = subprocess.Popen(
                [str(find_java()), *flags, "-cp", libraries, MAIN, str(properties)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,  # Ctrl-C stops the command, which then stops MirrorMaker in order
                preexec_fn=partial(signal_on_parent_death, signal.SIGTERM),  # no copy continues alone
            )
        return self

    def check(self) -> None:
        """Raises CommandFailed if MirrorMaker has ended."""
        if self.process is not None and self.process.poll() is not None:
            raise CommandFailed(f"MirrorMaker ended with {self.process.returncode}: {self.last_log_lines()}")

    def last_log_lines(self) -> str:
        """The last errors in MirrorMaker's log, or its last lines."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        errors = [line for line in lines if re.search(r"\b(ERROR|Exception)\b", line)]
        return "\n".join((errors or lines)[-5:]) + f"\n(all of it: {self.log})"

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self.process is not None and self.process.poll() is None:
                self.process.send_signal(signal.SIGTERM)
                try:
                    self.process.wait(STOP_S)
                except subprocess.TimeoutExpired:
                    self.process.kill()
                    self.process.wait()
        finally:
            self._folder.cleanup()
