"""Series that are made up for each alert: before its trouble, in it, and after it."""

from dataclasses import dataclass

JOB = 'instance="a",job="kbroker"'
QUOTA = 'quota="producer_byte_rate",user="",client_id="etl"'


@dataclass(frozen=True, slots=True)
class Trouble:
    """Series, each with its growth or value a sample while all is well, in trouble, and after.

    grows: the numbers are what is added with each sample. resolves_s: the time after which it must
    have resolved."""

    series: tuple[tuple[str, float, float, float], ...]
    grows: bool = False
    resolves_s: int = 60


def gauge(name: str, fine: float, bad: float) -> Trouble:
    """A gauge that goes from one value to another and back."""
    return Trouble(((name, fine, bad, fine),))


def slow(name: str, labels: str) -> Trouble:
    """A histogram whose times are above its bounds in trouble."""
    fine = {"0.0125": 3, "0.05": 3, "0.1": 3, "0.2": 3, "+Inf": 3}
    bad = {"0.0125": 0, "0.05": 0, "0.1": 0, "0.2": 3, "+Inf": 3}
    rows = tuple((f'{name}_bucket{{{JOB}{labels},le="{le}"}}', fine[le], bad[le], fine[le]) for le in fine)
    return Trouble(rows, grows=True, resolves_s=360)


TROUBLES = {
    "KbrokerDown": gauge(f"up{{{JOB}}}", 1, 0),
    "KbrokerNotReady": gauge(f"kbroker_ready{{{JOB}}}", 1, 0),
    "KbrokerLogDirOffline": gauge(f'kbroker_log_dir_offline{{{JOB},dir="/a"}}', 0, 1),
    "KbrokerDiskFullSoon": gauge(f'kbroker_log_dir_full_seconds{{{JOB},dir="/a"}}', 1e9, 7200),
    "KbrokerDiskFillsFast": gauge(f'kbroker_log_dir_full_seconds{{{JOB},dir="/a"}}', 1e9, 600),
    "KbrokerProduceRefused": gauge(f"kbroker_produce_refused_partitions{{{JOB}}}", 0, 3),
    "KbrokerPartitionsOffline": gauge(f'kbroker_partitions{{{JOB},state="offline"}}', 0, 2),
    "KbrokerUnderMinIsr": gauge(f"kbroker_under_min_isr_partitions{{{JOB}}}", 0, 1),
    "KbrokerUnderReplicated": gauge(f"kbroker_under_replicated_partitions{{{JOB}}}", 0, 1),
    "KbrokerWriteErrors": Trouble(
        ((f"kbroker_log_write_errors_total{{{JOB}}}", 0, 1, 0),), grows=True, resolves_s=360
    ),
    "KbrokerSyncSlow": slow("kbroker_flush_seconds", ""),
    "KbrokerLoopLate": slow("kbroker_loop_lag_seconds", ',process="io-0"'),
    "KbrokerLagGrows": Trouble(
        (
            (f'kbroker_group_lag_sum{{{JOB},group="g"}}', 0, 1000, -1000),
            (f'kbroker_group_members{{{JOB},group="g"}}', 1, 0, 0),
        ),
        grows=True,
        resolves_s=1000,
    ),
    "KbrokerLeavesCache": Trouble(
        (
            (f'kbroker_group_cache_seconds{{{JOB},group="g"}}', 1e9, 600, 1e9),
            (f'kbroker_group_members{{{JOB},group="g"}}', 1, 0, 0),
        )
    ),
    "KbrokerDeadLettersLost": Trouble(
        ((f'kbroker_dead_letter_failures_total{{{JOB},reason="unusable_topic"}}', 0, 1, 0),),
        grows=True,
        resolves_s=660,
    ),
    "KbrokerDeadLettersWait": gauge(f"kbroker_dead_letters_waiting{{{JOB}}}", 0, 7),
    "KbrokerTransactionOpen": gauge(f"kbroker_transaction_oldest_seconds{{{JOB}}}", 3, 1000),
    "KbrokerClientThrottled": Trouble(
        (
            (f"kbroker_quota_throttled_seconds_total{{{JOB},{QUOTA}}}", 0.15, 7.5, 0.15),
            (f"kbroker_quota_throttled_seconds_total{{{JOB},{QUOTA.replace('etl', 'calm')}}}", 0, 0.15, 0),
        ),
        grows=True,
        resolves_s=360,
    ),
    "KbrokerReadsFromDisk": Trouble(
        (
            (f'kbroker_topic_cold_bytes_total{{{JOB},topic="t"}}', 0, 900, 0),
            (f'kbroker_topic_out_bytes_total{{{JOB},topic="t"}}', 1000, 1000, 1000),
        ),
        grows=True,
        resolves_s=1000,
    ),
    "KbrokerIoPressure": Trouble(
        ((f'kbroker_pressure_seconds_total{{{JOB},resource="io",kind="full"}}', 0, 6, 0),),
        grows=True,
        resolves_s=360,
    ),
    "KbrokerProcessDied": Trouble(
        ((f'kbroker_process_deaths_total{{{JOB},role="io"}}', 0, 1, 0),), grows=True, resolves_s=660
    ),
    "KbrokerCertificateEnds": gauge(
        f'kbroker_tls_certificate_expiry_timestamp_seconds{{{JOB},listener="SSL"}}', 1e9, 7 * 86400
    ),
    "KbrokerUncleanable": gauge(f"kbroker_cleaner_uncleanable_partitions{{{JOB}}}", 0, 1),
    "KbrokerStoreCopyStale": gauge(f'kbroker_store_copy{{{JOB},dir="/a",state="stale"}}', 0, 1),
    "KbrokerListenDrops": Trouble(
        ((f"kbroker_tcp_listen_drops_total{{{JOB}}}", 0, 5, 0),), grows=True, resolves_s=360
    ),
}
