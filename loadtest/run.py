"""Facts of a run besides its rows: run.json and clients/*.json, and how to read them back."""

import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from loadtest.history import FORMAT


@dataclass(slots=True)
class Topic:
    """A topic of the run. `mode`: plain | idempotent | transactional | copied (output of
    consume-transform-produce)."""

    name: str
    partitions: int
    mode: str
    cleanup_policy: str = "delete"
    config: dict[str, str] = field(default_factory=dict)  # Kafka's settings that are promises to the judge


@dataclass(slots=True)
class Deletion:
    """A DeleteRecords request: records below `offset` may be deleted, and are deleted if it was
    confirmed."""

    topic: str
    partition: int
    offset: int
    confirmed: bool
    asked_ns: int
    answered_ns: int | None = None  # None: not known


@dataclass(slots=True)
class ProducerClient:
    """One life of a producer. `ended_ns` is None while it runs, and forever when it was killed."""

    producer: int
    topic: str
    acks: str  # "all", "1", "0"
    idempotent: bool
    transactional_id: str | None
    compression: str
    record_bytes: int
    process_id: int
    started_ns: int
    ended_ns: int | None = None
    attempted: int | None = None  # records, known at its end: their numbers are those below
    files: dict[str, int] | None = None  # of each of its histories, known at its end


@dataclass(slots=True)
class ConsumerClient:
    """One life of a consumer. `role`: load (comes and goes) | copy | drain (from the start to the
    end of the log)."""

    consumer: int
    group: str | None  # None: partitions assigned by hand
    role: str
    topics: list[str]
    isolation: str  # read_committed | read_uncommitted
    offset_reset: str  # earliest | latest
    process_id: int
    started_ns: int
    ended_ns: int | None = None
    finished: bool = False  # drain: it reached the end of every partition
    delivered: int | None = None  # records, known at its end
    files: dict[str, int] | None = None  # of each of its histories, known at its end


@dataclass(slots=True)
class PartitionEnds:
    """The end of a partition after all clients have stopped."""

    start_offset: int
    high_watermark: int
    last_stable_offset: int


@dataclass(slots=True)
class Run:
    """run.json. Written at the start and again at the end; `ended_ns` None means that the run did
    not end by itself."""

    run: int  # 31 bits; in every record
    seed: int
    bootstrap: str
    broker: str  # kbroker | kafka | unknown
    started_ns: int
    settings: dict[str, Any]
    topics: list[Topic]
    data_dirs: list[str] = field(default_factory=list)  # empty: not on this machine
    ended_ns: int | None = None
    drained: bool = False  # drain consumers reached the end of every partition
    ends: dict[str, dict[str, PartitionEnds]] = field(default_factory=dict)  # topic, partition as text
    committed: dict[str, dict[str, dict[str, int]]] = field(default_factory=dict)  # group, topic, partition
    clock_steps: list[dict[str, int]] = field(
        default_factory=list
    )  # {"at_ns", "step_ns"}: wall against monotonic
    ends_ns: int | None = None  # when `ends` were asked for
    deletions: list[Deletion] = field(default_factory=list)
    faults: int | None = None  # rows of faults.jsonl, known at the end
    format: int = FORMAT


def write_json(path: Path, content: Any) -> None:
    """Write atomically: a temporary file, then a rename."""
    part = path.with_name(f".{path.name}.part")
    part.write_text(json.dumps(content, indent=1) + "\n")
    part.replace(path)


def save_run(folder: Path, run: Run) -> None:
    write_json(folder / "run.json", asdict(run))


def load_run(folder: Path) -> Run:
    """Raises FileNotFoundError without a run.json, ValueError for another format."""
    content = json.loads((folder / "run.json").read_text())
    if content.get("format") != FORMAT:
        raise ValueError(f"{folder / 'run.json'} has format {content.get('format')}, known is {FORMAT}")
    run = Run(**{name.name: content[name.name] for name in fields(Run) if name.name in content})
    run.topics = [Topic(**topic) for topic in content["topics"]]
    run.deletions = [Deletion(**deletion) for deletion in content.get("deletions", [])]
    run.ends = {
        topic: {partition: PartitionEnds(**ends) for partition, ends in partitions.items()}
        for topic, partitions in content.get("ends", {}).items()
    }
    return run


def save_client(folder: Path, name: str, client: ProducerClient | ConsumerClient) -> None:
    (folder / "clients").mkdir(exist_ok=True)
    write_json(folder / "clients" / f"{name}.json", asdict(client))


def load_producers(folder: Path) -> list[ProducerClient]:
    return [ProducerClient(**json.loads(path.read_text())) for path in _clients(folder, "p")]


def load_consumers(folder: Path) -> list[ConsumerClient]:
    return [ConsumerClient(**json.loads(path.read_text())) for path in _clients(folder, "c")]


def load_intents(folder: Path) -> list[dict[str, int]]:
    """All intents; a torn last line of a killed client is left out, nothing of it was sent."""
    found = []
    for path in sorted((folder / "intents").glob("*.jsonl")):
        for line in path.read_text().splitlines():
            try:
                found.append(json.loads(line))
            except json.JSONDecodeError:
                continue
    return found


def _clients(folder: Path, role: str) -> list[Path]:
    return sorted((folder / "clients").glob(f"{role}[0-9]*.json"))
