from dataclasses import replace
from pathlib import Path

import pytest

from kbroker.metrics.catalog import CATALOG
from tests.tuning.fakes import on, situation
from tuning.broker.running import SIGNS, look
from tuning.finding import Finding, Severity
from tuning.live import parse

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


def findings(tmp_path: Path, page: str = PAGE) -> dict[str, Finding]:
    base = on(situation(tmp_path), files_limit=1000)
    return {each.knob.removeprefix("broker: "): each for each in look(replace(base, live=parse(page)))}


def test_signs_are_judged_by_their_limits(tmp_path: Path) -> None:
    found = findings(tmp_path)
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
    found = findings(tmp_path, 'kbroker_info{version="1"} 1\n')
    assert {each.severity for each in found.values()} == {Severity.UNSEEN}


def test_without_a_broker_nothing_is_reported(tmp_path: Path) -> None:
    assert look(situation(tmp_path)) == []


@pytest.mark.parametrize("sign", SIGNS, ids=lambda sign: sign.metric)
def test_every_sign_reads_a_metric_of_the_catalogue(sign: object) -> None:
    assert sign.metric in {metric.name for metric in CATALOG}  # type: ignore[attr-defined]
