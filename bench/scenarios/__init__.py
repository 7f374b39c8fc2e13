"""All scenarios, in the order they run and are reported.

A new one: a file here with `SCENARIO = Scenario(name, title, measures, run)`, and its line below.
`run` gets a
`Turn` (a broker, topics, the load generator), returns the figures by key, and raises LoadFailed for no figure.
"""

from bench.scenario import Scenario
from bench.scenarios import (
    ack_latency,
    batched_produce,
    bulk_produce,
    cold_reader,
    compaction,
    compressed_produce,
    connections,
    consume_cached,
    create_topic,
    durable_acks,
    end_to_end,
    everything,
    groups,
    idempotent_produce,
    many_partitions,
    partitions,
    pressure,
    raw_fetch,
    raw_produce,
    recovery,
    restart,
    single_record_client,
    small_requests,
    start,
    transactions,
)

SCENARIOS: tuple[Scenario, ...] = (
    # First, while the disk has no gigabytes of others to write.
    start.SCENARIO,
    restart.SCENARIO,
    *recovery.SCENARIOS,
    *compaction.SCENARIOS,
    batched_produce.SCENARIO,
    idempotent_produce.SCENARIO,
    consume_cached.SCENARIO,
    single_record_client.SCENARIO,
    *raw_produce.SCENARIOS,
    *compressed_produce.SCENARIOS,
    *raw_fetch.SCENARIOS,
    ack_latency.SCENARIO,
    end_to_end.SCENARIO,
    durable_acks.SCENARIO,
    cold_reader.SCENARIO,
    everything.SCENARIO,
    bulk_produce.SCENARIO,
    partitions.SCENARIO,
    many_partitions.SCENARIO,
    create_topic.SCENARIO,
    connections.SCENARIO,
    *pressure.SCENARIOS,
    *groups.SCENARIOS,
    *small_requests.SCENARIOS,
    *transactions.SCENARIOS,
)
