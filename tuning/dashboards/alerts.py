"""Prometheus' alerting rules, alerts.yml."""

import json
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Alert:
    """name: the alert's name. wait: time for which the expression must hold. page: whether the
    alert pages the operator on call."""

    name: str
    expression: str
    wait: str
    text: str
    page: bool = False


def _p99(metric: str, by: str = "") -> str:
    return f"histogram_quantile(0.99, sum by (le, instance{by}) (rate({metric}_bucket[5m])))"


ALERTS = (
    Alert("KbrokerDown", 'up{job="kbroker"} == 0 or absent(up{job="kbroker"})', "1m",
          "The broker's metrics cannot be scraped, or no scrape job is called kbroker.", True),
    Alert("KbrokerNotReady", "kbroker_ready == 0", "5m", "A log is not open, or a process does not start.", True),
    Alert("KbrokerLogDirOffline", "kbroker_log_dir_offline > 0", "0m", "A disk failed: `kbroker docs disks`.", True),
    Alert("KbrokerDiskFullSoon", "kbroker_log_dir_full_seconds < 4 * 3600", "10m",
          "The disk will be full in less than four hours; then produce is refused.", True),
    Alert("KbrokerDiskFillsFast", "kbroker_log_dir_full_seconds < 900", "0m",
          "The disk will be full in less than 15 minutes; then produce is refused.", True),
    Alert("KbrokerProduceRefused", "kbroker_produce_refused_partitions > 0", "0m",
          "A disk is full: produce is refused until there is free space.", True),
    Alert("KbrokerPartitionsOffline", 'kbroker_partitions{state="offline"} > 0', "1m",
          "Partitions have no leader.", True),
    Alert("KbrokerUnderMinIsr", "kbroker_under_min_isr_partitions > 0", "5m",
          "Produce with acks=all is refused for some partitions.", True),
    Alert("KbrokerUnderReplicated", "kbroker_under_replicated_partitions > 0", "15m",
          "Replicas are out of sync."),
    Alert("KbrokerWriteErrors", "rate(kbroker_log_write_errors_total[5m]) > 0", "0m",
          "Appends fail: a disk is full or broken.", True),
    Alert("KbrokerSyncSlow", f"{_p99('kbroker_flush_seconds')} > 0.1", "10m", "The p99 of fdatasync is above 100 ms."),
    Alert("KbrokerLoopLate", f"{_p99('kbroker_loop_lag_seconds', ', process')} > 0.05", "10m",
          "A process waits for a core, or spends long in Python."),
    Alert("KbrokerLagGrows", "delta(kbroker_group_lag_sum[15m]) > 0 and kbroker_group_lag_sum > 10000", "15m",
          "The lag of a group grows."),
    Alert("KbrokerLeavesCache", "kbroker_group_cache_seconds < 900", "5m",
          "A lagging group reads from the disk, or will within 15 minutes."),
    Alert("KbrokerDeadLettersLost", 'increase(kbroker_dead_letter_failures_total{reason="unusable_topic"}[10m]) > 0',
          "0m", "A share group archives records without dead letters, because their topic is unusable; see the log."),
    Alert("KbrokerDeadLettersWait", "kbroker_dead_letters_waiting > 0", "5m",
          "Dead letters cannot be written; their records wait."),
    Alert("KbrokerTransactionOpen", "kbroker_transaction_oldest_seconds > 900", "5m",
          "A transaction has been open for 15 minutes: read_committed consumers wait for it."),
    Alert("KbrokerClientThrottled", "rate(kbroker_quota_throttled_seconds_total[5m]) > 0.1", "10m",
          "A client is throttled for a tenth of the time: raise its quota, or let it send less."),
    Alert("KbrokerReadsFromDisk", "sum by (instance) (rate(kbroker_topic_cold_bytes_total[15m])) > "
          "0.5 * sum by (instance) (rate(kbroker_topic_out_bytes_total[15m]))", "15m",
          "Half of the bytes that consumers read come from the disk."),
    Alert("KbrokerIoPressure", 'rate(kbroker_pressure_seconds_total{resource="io", kind="full"}[5m]) > 0.1', "10m",
          "All tasks of the host wait for its disks for a tenth of the time."),
    Alert("KbrokerProcessDied", "increase(kbroker_process_deaths_total[10m]) > 0", "0m",
          "A child process ended unexpectedly and was restarted; see the log."),
    Alert("KbrokerCertificateEnds", "kbroker_tls_certificate_expiry_timestamp_seconds - time() < 14 * 86400", "5m",
          "The certificate of a TLS listener ends within 14 days: clients will refuse to connect."),
    Alert("KbrokerUncleanable", "kbroker_cleaner_uncleanable_partitions > 0", "15m",
          "Compaction skips damaged logs, which grow without a bound; see the log."),
    Alert("KbrokerStoreCopyStale", 'kbroker_store_copy{state="stale"} > 0', "15m",
          "A log dir has an old copy of the store: without the others, topics and settings would be old."),
    Alert("KbrokerListenDrops", "rate(kbroker_tcp_listen_drops_total[5m]) > 0", "5m",
          "New connections are dropped: raise socket.listen.backlog.size and net.core.somaxconn."),
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
