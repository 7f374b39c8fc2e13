"""The judge's own checks, on what the live job has: buckets during the run, and the whole at
its end.

During the run it is not known what retention and DeleteRecords may have taken: below the
present start of a log nothing is judged. Whether clocks were set, and all sends of producers that
are given no offsets, are known at the end.
"""

from dataclasses import replace
from pathlib import Path

from pyspark.sql import DataFrame

from loadtest.run import PartitionEnds
from loadtest.topics import find_ends
from spark_validation.checks import places, retention
from spark_validation.evidence import Evidence
from spark_validation.live.state import Bucket
from spark_validation.segments import layout
from spark_validation.segments.ranges import partition_folders

UNKNOWN = 1 << 62  # an end that still moves
Ends = dict[str, dict[str, PartitionEnds]]


def of_buckets(evidence: Evidence, buckets: list[Bucket]) -> list[DataFrame]:
    """V01, V02 and V05 of records with a place."""
    suspects = evidence.table(buckets, "topic string, partition int, bucket bigint")
    placed = places.sent_and_found(evidence, suspects)
    strange = places.unacknowledged(evidence, placed)
    # the log is ahead of the histories: an announced record without its row yet is no fault
    return [
        places.lost(evidence, placed),
        places.misplaced(evidence, placed),
        places.phantoms(evidence, strange),
        places.altered_records(evidence, strange),
    ]


def of_the_whole(evidence: Evidence) -> list[DataFrame]:
    """Checks that need all sends and the end of the run: log starts, times of append, records of
    acks=0."""
    found = [places.lost_without_offset(evidence), places.wrong_partitions(evidence)]
    if any(end.start_offset for ends in evidence.run.ends.values() for end in ends.values()):
        found.append(retention.log_starts(evidence))
    if evidence.append_time_topics and not evidence.clock_moved:
        found.append(places.append_times(evidence))
    if evidence.silent_producers:
        silent = places.without_offsets(evidence)
        found += [places.phantoms(evidence, silent), places.altered_records(evidence, silent)]
    return found


def present_ends(evidence: Evidence, bootstrap: str | None) -> Ends:
    """The present starts of the logs: by their oldest segments, or by the broker. Their ends still
    move."""
    if evidence.source != "segments":
        return find_ends(replace(evidence.run, bootstrap=bootstrap or evidence.run.bootstrap))
    found: Ends = {}
    topics = [topic.name for topic in evidence.run.topics]
    for folder, topic, partition in partition_folders(evidence.data_dirs, topics):
        segments = layout.segments_among(path.name for path in Path(folder).iterdir())
        if segments:
            found.setdefault(topic, {})[str(partition)] = PartitionEnds(segments[0], UNKNOWN, UNKNOWN)
    return found
