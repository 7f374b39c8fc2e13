"""V13 of partition.metadata: the partitions of a topic have its id, and no other topic has it."""

from collections import Counter
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_validation.anomalies import findings
from spark_validation.evidence import Evidence
from spark_validation.segments.ranges import partition_folders

FILE = "partition.metadata"
UNREADABLE = f"{FILE} cannot be read"
ANOTHER = f"{FILE} has another id than its topic's other partitions"
SHARED = f"{FILE} has the id of another topic"
Found = tuple[str, int, str, str]


def topic_ids(evidence: Evidence) -> DataFrame:
    """V13 of every partition of the run's topics that has such a file."""
    folders = partition_folders(evidence.data_dirs, [topic.name for topic in evidence.run.topics])
    ids = {(topic, partition): text_in(Path(folder) / FILE) for folder, topic, partition in folders}
    rows = contradictions({place: text for place, text in ids.items() if text is not None})
    frame = evidence.table(rows, "topic string, partition int, kind string, detail string")
    return findings(frame, "V13", F.col("kind"), F.col("detail"))


def text_in(path: Path) -> str | None:
    """The file's text; None if it is missing or empty: a broker that was killed had not written
    it yet."""
    try:
        return path.read_bytes().decode(errors="replace") or None
    except FileNotFoundError:
        return None


def contradictions(texts: dict[tuple[str, int], str]) -> list[Found]:
    """Topic, partition, kind and detail of the files that cannot be right. An id that most of a
    topic's partitions have is the topic's; of as many each, none is."""
    ids = {place: id_in(text) for place, text in texts.items()}
    found: list[Found] = [(*place, UNREADABLE, "") for place, known in ids.items() if known is None]
    counts: dict[str, Counter[str]] = {}
    for (topic, _), known in ids.items():
        if known is not None:
            counts.setdefault(topic, Counter())[known] += 1
    owners: dict[str, set[str]] = {}
    for topic, each in counts.items():
        most = max(each.values())
        own = [known for known, count in each.items() if count == most]
        if len(own) == 1:
            owners.setdefault(own[0], set()).add(topic)
    for (topic, partition), known in ids.items():
        if known is None:
            continue
        others = owners.get(known, set()) - {topic}
        if others:
            found.append((topic, partition, SHARED, f"{known} is the id of {min(others)}"))
        elif len(counts[topic]) > 1 and topic not in owners.get(known, ()):
            found.append((topic, partition, ANOTHER, known))
    return found


def id_in(text: str) -> str | None:
    """The topic id of a file; None where it has none."""
    fields = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    return fields.get("topic_id") if fields.get("version") == "0" else None
