from dataclasses import replace
from pathlib import Path

import pytest

from kbroker.metrics.catalog import CATALOG
from tests.tuning.fakes import on, situation
from tuning.broker.running import SIGNS, findings
from tuning.finding import Finding, Severity
from tuning.live import Live, parse

PAGE = """\
kbroker_info{version="1"} 1
kbroker_log_dir_offline{dir="/a"} 0
kbroker_log_dir_full_seconds{dir="/a"} 3600
kbroker_log_dir_full_seconds{dir="/b"} +Inf
kbroker_flush_seconds_bucket{le="0.1"} 90
kbroker_flush_seconds_bucket{le="0.2"} 100
kbroker_flush_seconds_bucket{le="+Inf"} 100
kbroker_topic_out_bytes_total{topic="t"} 1000
kbroker_topic_cold_bytes_total{topic="t"} 50
kbroker_requests_total{api="Produce",version="9"} 1000
kbroker_network_stalls_total{process="network-0"} 100
kbroker_process_open_fds{process="io-0"} 900
kbroker_partitions{state="online"} 100
kbroker_tcp_listen_drops_total 0
"""


def by_name(tmp_path: Path, page: str = PAGE) -> dict[str, Finding]:
    base = on(situation(tmp_path), files_limit=1000)
    return {each.knob.removeprefix("broker: "): each for each in findings(replace(base, live=parse(page)))}


def test_signs_are_judged_by_their_limits(tmp_path: Path) -> None:
    found = by_name(tmp_path)
    assert found["log dirs offline"].severity is Severity.OK
    assert (found["time until a disk is full"].severity, found["time until a disk is full"].now) == (
        Severity.SERIOUS,
        "1 h",
    )
    assert (found["fdatasync p99"].severity, found["fdatasync p99"].now) == (Severity.ADVICE, "200 ms")
    assert (found["bytes fetched from disk"].severity, found["bytes fetched from disk"].now) == (
        Severity.OK,
        "5.0%",
    )
    assert found["produce requests that waited for room"].severity is Severity.ADVICE
    assert found["descriptors in use"].severity is Severity.SERIOUS
    assert found["rows of the partition table in use"].severity is Severity.OK


def test_values_that_the_page_does_not_show_are_unseen(tmp_path: Path) -> None:
    found = by_name(tmp_path, 'kbroker_info{version="1"} 1\n')
    assert {each.severity for each in found.values()} == {Severity.UNSEEN}


LOOPS = """\
kbroker_info{version="1"} 1
kbroker_loop_lag_seconds_bucket{process="network-0",le="0.001"} 1000
kbroker_loop_lag_seconds_bucket{process="network-0",le="+Inf"} 1000
kbroker_loop_lag_seconds_bucket{process="network-1",le="0.001"} 900
kbroker_loop_lag_seconds_bucket{process="network-1",le="0.2"} 1000
kbroker_loop_lag_seconds_bucket{process="network-1",le="+Inf"} 1000
kbroker_loop_lag_seconds_bucket{process="control",le="0.001"} 0
kbroker_loop_lag_seconds_bucket{process="control",le="+Inf"} 1000
"""


def test_the_slowest_network_process_is_judged(tmp_path: Path) -> None:
    found = by_name(tmp_path, LOOPS)["event loop delay p99"]
    assert (found.severity, found.now) == (Severity.ADVICE, "200 ms")


def syncs(fast: int, slow: int) -> Live:
    whole = fast + slow
    return parse(
        f'kbroker_info{{version="1"}} 1\nkbroker_flush_seconds_bucket{{le="0.1"}} {fast}\n'
        f'kbroker_flush_seconds_bucket{{le="0.8"}} {whole}\nkbroker_flush_seconds_bucket{{le="+Inf"}} {whole}\n'
        f"kbroker_flush_seconds_count {whole}\n"
    )


@pytest.mark.parametrize(
    ("before", "now", "severity", "shown"),
    [
        ((10**6, 0), (10**6, 20), Severity.ADVICE, "800 ms"),  # slow today
        ((10**6, 10**5), (10**6 + 50, 10**5), Severity.OK, "100 ms"),  # slow once
        ((10**6, 0), (10**6, 19), Severity.OK, "100 ms"),  # too few to judge: since the start
        ((10**6, 0), (0, 20), Severity.ADVICE, "800 ms"),  # a new broker
    ],
)
def test_quantiles_are_those_of_the_last_seconds(
    tmp_path: Path, before: tuple[int, int], now: tuple[int, int], severity: Severity, shown: str
) -> None:
    live = syncs(*now)
    base = replace(situation(tmp_path), live=live, recent=live.since(syncs(*before), 5.0))
    found = next(each for each in findings(base) if each.knob == "broker: fdatasync p99")
    assert (found.severity, found.now) == (severity, shown)
    assert (", the last 5 s" in found.source) is (now != (10**6, 19))


def test_without_a_broker_nothing_is_reported(tmp_path: Path) -> None:
    assert findings(situation(tmp_path)) == []


@pytest.mark.parametrize("sign", SIGNS, ids=lambda sign: sign.metric)
def test_every_sign_reads_a_metric_of_the_catalogue(sign: object) -> None:
    assert sign.metric in {metric.name for metric in CATALOG}  # type: ignore[attr-defined]
