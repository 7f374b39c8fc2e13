"""Topologies of streams groups with very many topics take time in proportion to their size."""

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from kbroker.control.groups.streams_group.configured_topology import Status, configure
from kbroker.control.groups.streams_group.topology import from_message, from_record, to_record
from kbroker.protocol.bounds import MAX_STRING_BYTES
from kbroker.protocol.messages.streams_group_heartbeat import (
    CopartitionGroup,
    Subtopology,
    TopicInfo,
    Topology,
)

MAX_CPU_S = 3.0
"""A tenth of it is needed; by the square of their number it would be more than ten seconds."""


def cpu_s(work: Callable[[], Any]) -> float:
    began = time.thread_time()
    work()
    return time.thread_time() - began


def test_very_many_copartition_groups() -> None:
    count = 30_000
    names = [f"source-{number:05d}" for number in range(count)]
    groups = [CopartitionGroup([number]) for number in range(count)]
    message = Topology(1, [Subtopology("0", names, copartition_groups=groups)])
    made = from_message(message)
    assert cpu_s(lambda: to_record(made)) < MAX_CPU_S
    assert from_record(to_record(made)) == made


def test_very_many_copartition_groups_beside_very_many_repartition_topics() -> None:
    count = 10_000
    topics = [TopicInfo(f"between-{number:05d}") for number in range(count)]
    groups = [CopartitionGroup([], [], [number]) for number in range(count)]
    part = Subtopology("0", repartition_source_topics=topics, copartition_groups=groups)
    assert cpu_s(lambda: from_message(Topology(1, [part]))) < MAX_CPU_S


def test_a_long_chain_of_repartition_topics() -> None:
    count = 6_000
    parts = [
        Subtopology(
            f"{number:05d}",
            [] if number else ["source"],
            repartition_source_topics=[TopicInfo(f"between-{number:05d}")] if number else [],
            repartition_sink_topics=[f"between-{number + 1:05d}"] if number + 1 < count else [],
        )
        for number in range(count)
    ]
    made = from_message(Topology(1, parts))
    view: Any = SimpleNamespace(partition_count={"source": 7}.get)
    found = []
    assert cpu_s(lambda: found.append(configure(made, 0, view))) < MAX_CPU_S
    assert {spec.partitions for spec in found[0].missing} == {7}
    assert len(found[0].missing) == count - 1


def test_a_topic_is_as_wide_as_the_widest_input_of_its_writers() -> None:
    parts = [
        Subtopology("0", ["narrow"], repartition_sink_topics=["first", "both"]),
        Subtopology("1", ["wide"], repartition_sink_topics=["both"]),
        Subtopology(
            "2",
            repartition_source_topics=[TopicInfo("first"), TopicInfo("both")],
            repartition_sink_topics=["last"],
        ),
        Subtopology("3", repartition_source_topics=[TopicInfo("last")]),
    ]
    view: Any = SimpleNamespace(partition_count={"narrow": 2, "wide": 5}.get)
    configured = configure(from_message(Topology(1, parts)), 0, view)
    assert {spec.name: spec.partitions for spec in configured.missing} == {"first": 2, "both": 5, "last": 5}


def test_a_detail_about_very_many_topics_is_cut_to_what_a_client_reads() -> None:
    names = [f"{number:03}-" + "x" * 200 for number in range(200)]
    part = Subtopology("0", names, copartition_groups=[CopartitionGroup(list(range(200)))])
    view: Any = SimpleNamespace(partition_count=lambda name: 5 + int(name[:3]) % 2)
    problem = configure(from_message(Topology(1, [part])), 0, view).problem
    assert problem is not None
    code, detail = problem
    assert code is Status.INCORRECTLY_PARTITIONED_TOPICS
    assert detail.startswith(f"Following topics do not have the same number of partitions: [{names[0]}, ")
    assert detail.endswith("...")
    assert len(detail) == MAX_STRING_BYTES
