"""What `kbroker status` makes of a broker's metrics."""

from typing import Any

import pytest

from kbroker.cli.health_checks import NAMES, age, checks, started_s
from kbroker.metrics import catalog

NOW_S = 1_000_000.0
WELL: dict[str, list[tuple[dict[str, str], float]]] = {
    "kbroker_process_start_time_seconds": [
        ({"process": "acceptor"}, NOW_S - 90_000),
        ({"process": "io-0"}, NOW_S - 89_999),
    ],
    "kbroker_process_deaths_total": [({"role": "io"}, 0.0)],
    "kbroker_process_confined": [
        ({"process": "network-0", "confinement": "landlock"}, 1.0),
        ({"process": "network-0", "confinement": "seccomp"}, 1.0),
        ({"process": "io-0", "confinement": "seccomp"}, 1.0),
        ({"process": "http", "confinement": "landlock"}, 0.0),
    ],
    "kbroker_log_dir_offline": [({"dir": "/d"}, 0.0)],
    "kbroker_log_dir_bytes": [({"dir": "/d", "type": "size"}, 100e9), ({"dir": "/d", "type": "free"}, 50e9)],
    "kbroker_log_dir_full_seconds": [({"dir": "/d"}, float("inf"))],
    "kbroker_store_copy": [({"dir": "/d", "state": "current"}, 1.0), ({"dir": "/d", "state": "stale"}, 0.0)],
    "kbroker_partitions": [({"state": "online"}, 7.0), ({"state": "offline"}, 0.0)],
    "kbroker_group_lag_sum": [
        ({"group": "g", "topic": "t", "partition": "0"}, 40.0),
        ({"group": "g", "topic": "t", "partition": "1"}, 2.0),
    ],
    "kbroker_tls_certificate_expiry_timestamp_seconds": [({"listener": "SSL"}, NOW_S + 400 * 86400)],
}


def problems(changes: dict[str, Any], **arguments: Any) -> list[str]:
    found = checks(WELL | changes, arguments.pop("not_ready", []), NOW_S, **arguments)
    return [f"{check.name}: {problem}" for check in found for problem in check.problems]


def test_a_broker_that_is_well_has_no_problem() -> None:
    found = checks(WELL, [], NOW_S)
    assert not any(check.problems for check in found)
    assert {check.name: check.detail for check in found} == {
        "ready": "yes",
        "processes": "2 run, 0 restarts",
        "confined": "2 processes by landlock, seccomp",
        "log dir": "/d: 50.0 GB of 100 GB free",
        "partitions": "7 of 7 online",
        "lag": "1 group with lag: g 42",
        "certificate": "SSL: until 1971-02-16",
    }
    assert started_s(WELL) == NOW_S - 90_000


@pytest.mark.parametrize(
    ("name", "samples", "problem"),
    [
        (
            "kbroker_log_dir_offline",
            [({"dir": "/d"}, 1.0)],
            "log dir: /d is offline, its partitions are not served",
        ),
        (
            "kbroker_store_copy",
            [({"dir": "/d", "state": "stale"}, 1.0)],
            "log dir: the copy of the store in /d is stale",
        ),
        (
            "kbroker_log_dir_bytes",
            [({"dir": "/d", "type": "size"}, 100e9), ({"dir": "/d", "type": "free"}, 1e9)],
            "log dir: /d has 1.0% free",
        ),
        ("kbroker_partitions", [({"state": "offline"}, 2.0)], "partitions: 2 partitions offline"),
        ("kbroker_under_replicated_partitions", [({}, 3.0)], "partitions: 3 partitions under-replicated"),
        (
            "kbroker_under_min_isr_partitions",
            [({}, 1.0)],
            "partitions: 1 partition under min.insync.replicas",
        ),
        ("kbroker_produce_refused_partitions", [({}, 4.0)], "partitions: 4 partitions refuse produce"),
        ("kbroker_cleaner_uncleanable_partitions", [({}, 1.0)], "partitions: 1 partition cannot be cleaned"),
        (
            "kbroker_tls_certificate_expiry_timestamp_seconds",
            [({"listener": "SSL"}, NOW_S + 13 * 86400)],
            "certificate: the certificate of SSL expires in 13 d",
        ),
        (
            "kbroker_tls_certificate_expiry_timestamp_seconds",
            [({"listener": "SSL"}, NOW_S - 120)],
            "certificate: the certificate of SSL expired 2 min ago",
        ),
    ],
)
def test_each_problem_is_found_and_nothing_else(name: str, samples: Any, problem: str) -> None:
    (found,) = problems({name: samples})
    assert found.startswith(problem)


def test_a_restart_is_a_problem_for_an_hour() -> None:
    died = {"kbroker_process_deaths_total": [({"role": "io"}, 2.0)]}
    assert not problems(died)
    young = {"kbroker_process_start_time_seconds": [({"process": "io-0"}, NOW_S - 300)]}
    assert problems(died | young) == ["processes: restarted 5 min ago: io 2 times since the start"]
    assert not problems(young)


def test_a_process_that_starts_late_is_no_restart_of_another() -> None:
    """The http process starts with the first request."""
    died = {"kbroker_process_deaths_total": [({"role": "io"}, 1.0), ({"role": "http"}, 0.0)]}
    starts = [({"process": "io-0"}, NOW_S - 20_000), ({"process": "http"}, NOW_S - 1)]
    assert not problems(died | {"kbroker_process_start_time_seconds": starts})
    young = [({"process": "io-0"}, NOW_S - 20_000), ({"process": "io-1"}, NOW_S - 60)]
    assert problems(died | {"kbroker_process_start_time_seconds": young}) == [
        "processes: restarted 1 min ago: io 1 time since the start"
    ]


def test_a_disk_that_fills_is_a_problem_when_little_is_free() -> None:
    filling = {"kbroker_log_dir_full_seconds": [({"dir": "/d"}, 7200.0)]}
    little = {
        "kbroker_log_dir_bytes": [({"dir": "/d", "type": "size"}, 1e9), ({"dir": "/d", "type": "free"}, 1e8)]
    }
    assert not problems(filling)
    assert not problems(little)
    assert problems(filling | little) == ["log dir: /d has 10% free and is full within a day"]
    assert "full in 2 h" in next(
        check.detail for check in checks(WELL | filling, [], NOW_S) if check.name == "log dir"
    )


def test_an_offline_log_dir_shows_its_path_and_nothing_of_its_disk() -> None:
    metrics: dict[str, Any] = {
        "kbroker_log_dir_offline": [({"dir": "/d"}, 1.0)],
        "kbroker_log_dir_bytes": [
            ({"dir": "/d", "type": "size"}, 100e9),
            ({"dir": "/d", "type": "free"}, 0.0),
        ],
    }
    (found,) = (check for check in checks(WELL | metrics, [], NOW_S) if check.name == "log dir")
    assert found.detail == "/d"
    (problem,) = found.problems
    assert problem.startswith("/d is offline, ")


def test_a_full_disk_is_called_full() -> None:
    full = {
        "kbroker_log_dir_full_seconds": [({"dir": "/d"}, 0.0)],
        "kbroker_log_dir_bytes": [({"dir": "/d", "type": "size"}, 1e9), ({"dir": "/d", "type": "free"}, 0.0)],
    }
    (found,) = (check for check in checks(WELL | full, [], NOW_S) if check.name == "log dir")
    assert (found.detail, found.problems) == ("/d: 0 B of 1.0 GB free", ["/d is full"])


def test_lag_is_a_problem_beyond_the_limit() -> None:
    assert not problems({}, max_lag=42)
    assert problems({}, max_lag=41) == ["lag: g lags by 42"]


def test_the_reasons_of_the_readiness_probe_are_shown() -> None:
    assert problems({}, not_ready=["io-0 is starting"]) == ["ready: io-0 is starting"]


def test_the_metrics_exist() -> None:
    assert {metric.name for metric in catalog.CATALOG} >= NAMES


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59.9, "59 s"), (60, "1 min"), (3725, "1 h 2 min"), (90_000, "1 d 1 h"), (86_400, "1 d")],
)
def test_a_time_span_is_short(seconds: float, text: str) -> None:
    assert age(seconds) == text
