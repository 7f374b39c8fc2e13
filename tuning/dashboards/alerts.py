"""Prometheus' alerting rules, alerts.yml."""

import json
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Alert:
    """name: the alert's name. wait: time for which the expression must hold. fires_s: seconds after
    the beginning of a clear trouble by which it fires, with a scrape each 15 s; the tests check
    that, and that it does not fire a minute earlier. text: the trouble. first: the first action.
    page: whether the alert pages the operator on call."""

    name: str
    expression: str
    wait: str
    fires_s: int
    text: str
    first: str
    page: bool = False


def _p99(metric: str, by: str = "") -> str:
    return f"histogram_quantile(0.99, sum by (le, instance{by}) (rate({metric}_bucket[5m])))"


_IN_USE = (
    "(max_over_time(kbroker_group_members[1d]) > 0 or "
    "max without (topic, partition) (changes(kbroker_group_offset[1h])) > 0 or "
    "changes(sum without (topic, partition) (kbroker_group_offset)[1d:5m]) > 0)"
)
"""A group that had members in the last day, or committed without members. The offsets of a group
that is no longer used stay for a week, with a lag that grows. Of the day before the last hour,
Prometheus reads one value in five minutes: all samples of 10,000 partitions are more than a query
may read."""

ALERTS = (
    Alert("KbrokerDown",
          'up{job="kbroker"} == 0 or absent(up{job="kbroker"})',
          "1m", 90,
          "The broker's metrics cannot be scraped, or no scrape job is called kbroker.",
          "Read the broker's log and start the broker, or give the scrape job the name `kbroker`.", page=True),
    Alert("KbrokerNotReady",
          "kbroker_ready == 0",
          "5m", 330,
          "A log is not open, a process does not start, or a full disk refuses produce.",
          "`kbroker status` names the process, the log or the disk.", page=True),
    Alert("KbrokerLogDirOffline",
          "kbroker_log_dir_offline > 0",
          "0m", 30,
          "A disk failed.",
          "Replace the disk: `kbroker docs disks`.", page=True),
    Alert("KbrokerDiskFullSoon",
          "kbroker_log_dir_full_seconds < 4 * 3600",
          "10m", 630,
          "The disk will be full in less than four hours; then produce is refused.",
          "Shorten the retention of the largest topics: `kbroker docs full-disk`.", page=True),
    Alert("KbrokerDiskFillsFast",
          "kbroker_log_dir_full_seconds < 900",
          "0m", 30,
          "The disk will be full in less than 15 minutes; then produce is refused.",
          "Find the topic with `kbroker topics list --rates 5`; limit its clients with a quota or delete "
          "records: `kbroker docs full-disk`.", page=True),
    Alert("KbrokerProduceRefused",
          "kbroker_produce_refused_partitions > 0",
          "0m", 30,
          "A disk is full: produce is refused until there is free space.",
          "Delete records or a topic: `kbroker docs full-disk`.", page=True),
    Alert("KbrokerPartitionsOffline",
          'kbroker_partitions{state="offline"} > 0',
          "1m", 90,
          "Partitions have no leader.",
          "`kbroker status` names the log dir or the process: `kbroker docs disks`.", page=True),
    Alert("KbrokerUnderMinIsr",
          "kbroker_under_min_isr_partitions > 0",
          "5m", 330,
          "Produce with acks=all is refused for some partitions.",
          "Bring the disk of the missing replicas back, or lower `min.insync.replicas`: "
          "`kbroker docs disks`.", page=True),
    Alert("KbrokerUnderReplicated",
          "kbroker_under_replicated_partitions > 0",
          "15m", 930,
          "Replicas are out of sync.",
          "`kbroker topics list --under-replicated`; see `kbroker docs disks`."),
    Alert("KbrokerWriteErrors",
          "rate(kbroker_log_write_errors_total[5m]) > 0",
          "0m", 30,
          "Appends fail: a disk is full or broken.",
          "Free space, or replace the disk that the log names: `kbroker docs full-disk`, `kbroker docs "
          "disks`.", page=True),
    Alert("KbrokerSyncSlow",
          f"{_p99('kbroker_flush_seconds')} > 0.1",
          "10m", 630,
          "The p99 of fdatasync is above 100 ms.",
          "`kbroker tune check` names settings of the disk; look for other programs that write to it."),
    Alert("KbrokerLoopLate",
          f"{_p99('kbroker_loop_lag_seconds', ', process')} > 0.05",
          "10m", 630,
          "A process waits for a core, or spends long in Python.",
          "`kbroker top` shows the CPU of each process; look for other programs that use the cores: "
          "`kbroker docs tuning`."),
    Alert("KbrokerLagGrows",
          f"delta(kbroker_group_lag_sum[15m]) > 0 and kbroker_group_lag_sum > 10000 and {_IN_USE}",
          "15m", 1080,
          "The lag of a group grows.",
          "`kbroker groups describe GROUP`, or `kbroker share-groups describe GROUP`, shows members and lag: "
          "add members, or find the slow one."),
    Alert("KbrokerLeavesCache",
          f"kbroker_group_cache_seconds < 900 and {_IN_USE}",
          "5m", 330,
          "A lagging group reads from the disk, or will within 15 minutes.",
          "Add members to the group before it reads from the disk, or add memory."),
    Alert("KbrokerDeadLettersLost",
          'increase(kbroker_dead_letter_failures_total{reason="unusable_topic"}[10m]) > 0',
          "0m", 30,
          "A share group archives records without dead letters, because their topic is unusable.",
          "Create the dead-letter topic, or name a usable one: `kbroker docs dead-letters`."),
    Alert("KbrokerDeadLettersWait",
          "kbroker_dead_letters_waiting > 0",
          "5m", 330,
          "Dead letters cannot be written; their records wait.",
          "The log names the reason, often a full disk: `kbroker docs dead-letters`."),
    Alert("KbrokerTransactionOpen",
          "kbroker_transaction_oldest_seconds > 900",
          "5m", 330,
          "A transaction has been open for 15 minutes: read_committed consumers wait for it.",
          "`kbroker transactions find-hanging` prints the command that aborts it."),
    Alert("KbrokerClientThrottled",
          "rate(kbroker_quota_throttled_seconds_total[5m]) > 0.1",
          "10m", 690,
          "A client is throttled for a tenth of the time.",
          "`kbroker quotas list`; raise the quota with `kbroker quotas set`, or let the client send less."),
    Alert("KbrokerReadsFromDisk",
          "sum by (instance) (rate(kbroker_topic_cold_bytes_total[15m])) > "
          "0.5 * sum by (instance) (rate(kbroker_topic_out_bytes_total[15m]))",
          "15m", 1440,
          "Half of the bytes that consumers read come from the disk.",
          "`kbroker_group_cold_bytes_total` names the groups: add members to them, or memory."),
    Alert("KbrokerIoPressure",
          'rate(kbroker_pressure_seconds_total{resource="io", kind="full"}[5m]) > 0.1',
          "10m", 720,
          "All tasks of the host wait for its disks for a tenth of the time.",
          "Look for other programs that use the disk, and run `kbroker tune check`."),
    Alert("KbrokerProcessDied",
          "increase(kbroker_process_deaths_total[10m]) > 0",
          "0m", 30,
          "A child process ended unexpectedly and was restarted.",
          "Read the log; report a traceback, or find out who killed the process (out of memory?)."),
    Alert("KbrokerCertificateEnds",
          "kbroker_tls_certificate_expiry_timestamp_seconds - time() < 14 * 86400",
          "5m", 330,
          "The certificate of a TLS listener expires within 14 days: clients will refuse to connect.",
          "Replace the file; the broker reads it without a restart: `kbroker docs tls`."),
    Alert("KbrokerUncleanable",
          "kbroker_cleaner_uncleanable_partitions > 0",
          "15m", 930,
          "Compaction skips damaged logs, which grow without a bound.",
          "The broker's log names them: copy the topic with `kbroker topics copy --records`, delete the old one."),
    Alert("KbrokerStoreCopyStale",
          'kbroker_store_copy{state="stale"} > 0',
          "15m", 930,
          "A log dir has an old copy of the store: without the others, topics and settings would be old.",
          "Check the disk of that log dir: `kbroker docs durability`."),
    Alert("KbrokerListenDrops",
          "rate(kbroker_tcp_listen_drops_total[5m]) > 0",
          "5m", 330,
          "New connections are dropped: `socket.listen.backlog.size` or net.core.somaxconn is too small.",
          "Raise both settings; `kbroker tune check` shows their values."),
)  # fmt: skip


def page() -> str:
    """The file's text; strings are quoted as JSON, which is valid YAML."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# Generated from tuning/dashboards/alerts.py by make docs; do not edit. The scrape's job is called kbroker."
    yield "groups:"
    yield "  - name: kbroker"
    yield "    rules:"
    for alert in ALERTS:
        yield f"      - alert: {alert.name}"
        yield f"        expr: {json.dumps(alert.expression)}"
        yield f"        for: {alert.wait}"
        yield "        labels:"
        yield f"          severity: {'page' if alert.page else 'ticket'}"
        yield "        annotations:"
        yield f"          summary: {json.dumps(alert.text)}"
        yield f"          first_action: {json.dumps(alert.first)}"
