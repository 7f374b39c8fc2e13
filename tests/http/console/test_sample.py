"""Rates and quantiles between two readings."""

from typing import Any

import numpy as np

from kbroker.http.console.readings import APIS, Reading
from kbroker.http.console.sample import sample
from kbroker.metrics import layout as ml
from kbroker.metrics.labels import PHASES


def reading(at_s: float, **more: Any) -> Reading:
    totals = dict.fromkeys(("in_bytes", "in_records", "out_bytes", "requests", "errors", "connections"), 0)
    stages = {(api, phase): np.zeros(ml.HISTOGRAM_BUCKETS, np.int64) for api in APIS for phase in PHASES}
    made = Reading(at_s, totals | more.pop("totals", {}), stages)
    for name, value in more.items():
        setattr(made, name, value)
    return made


def test_counters_become_rates_and_never_go_below_zero() -> None:
    found = sample(
        reading(10.0, totals={"in_bytes": 100, "errors": 5}),
        reading(12.0, totals={"in_bytes": 500, "errors": 0, "connections": 3}),
    )
    assert found["in_bytes"] == 200.0
    assert found["errors"] == 0.0
    assert found["connections"] == 3


def test_only_stages_that_were_counted_have_quantiles() -> None:
    now = reading(2.0)
    now.stages["Produce", "append"][80] = 10
    stages = sample(reading(1.0), now)["stages"]
    assert set(stages["produce"]) == {"append"}
    assert stages["produce"]["append"]["count"] == 10
    assert stages["fetch"] == {}


def test_the_cold_share_is_that_of_fetched_bytes() -> None:
    counts = {"in_bytes": 0, "in_records": 0, "out_bytes": 0, "cold_bytes": 0}
    before = reading(0.0, topics={"t": counts})
    now = reading(1.0, totals={"out_bytes": 100}, topics={"t": counts | {"out_bytes": 100, "cold_bytes": 25}})
    assert sample(before, now)["cold_share"] == 0.25


def test_disks_and_loopback_are_shown_against_measured_speeds() -> None:
    limits = {"disk_write": 500.0, "disk_read": 1000.0, "loopback": 8000.0}
    before = reading(0.0, disks={"sda": (0, 0, 0, 0, 0)}, nics={"lo": (0, 0, 0), "eth0": (0, 0, 0)})
    now = reading(
        1.0, disks={"sda": (500, 100, 2, 1, 3)}, nics={"lo": (9, 9, 0), "eth0": (9, 9, 0)}, limits=limits
    )
    found = sample(before, now)
    assert found["disks"][0]["used"] == 0.7
    assert {nic["name"]: nic["speed_bytes"] for nic in found["nics"]} == {"eth0": None, "lo": 8000}
    assert found["limits"] == limits
    unmeasured = sample(before, reading(1.0, disks=now.disks, nics=now.nics))
    assert (unmeasured["disks"][0]["used"], unmeasured["limits"]) == (None, {})


def test_a_new_counter_counts_from_its_first_reading() -> None:
    now = reading(
        1.0, disks={"sda": (1000, 1000, 10, 5, 100)}, cpu={"io-0": 50.0}, nics={"eth0": (9, 9, 125_000)}
    )
    found = sample(reading(0.0), now)
    assert found["disks"][0]["read_bytes"] == 0.0
    assert found["processes"][0]["cpu"] == 0.0
    assert found["nics"] == [{"name": "eth0", "in_bytes": 0.0, "out_bytes": 0.0, "speed_bytes": 125_000}]


def test_polling_is_a_part_of_the_cpu_time() -> None:
    before = reading(0.0, cpu={"io-0": 1.0, "http": 1.0}, polling={"io-0": 0.5, "http": 0.0})
    now = reading(2.0, cpu={"io-0": 2.8, "http": 1.2}, polling={"io-0": 2.0, "http": 0.0})
    polling = {each["name"]: (each["cpu"], each["polling"]) for each in sample(before, now)["processes"]}
    assert polling == {"io-0": (0.9, 0.75), "http": (0.1, 0.0)}
    later = reading(3.0, cpu={"io-0": 3.0}, polling={"io-0": 3.0})  # counted once a second, so late
    (found,) = sample(now, later)["processes"]
    assert found["polling"] == found["cpu"] == 0.2
