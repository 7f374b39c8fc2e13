"""Quotas on /metrics: limits, what is used, what was throttled, in a bounded number."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kbroker.config.client_quotas import (
    CLIENT_ID,
    CONTROLLER_MUTATION_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
    Bound,
    QuotaTable,
    entity_of,
)
from kbroker.control.broker import Broker
from kbroker.control.changes.mutation_quotas import MutationQuotas
from kbroker.control.clients.quotas import MAX_KNOWN, MAX_SHOWN, QuotaReports
from kbroker.ipc.client_messages import ClientReport, QuotaUse, Throttled
from kbroker.ipc.sensors import Sensors, sensor_of
from kbroker.protocol.api_keys import ApiKey
from tests.api.in_process import client_request
from tests.control.fakes import world

NOW_MS = 100_000_500
"""Half a second into a window of a second."""


class Case:
    """A broker's quotas, and what network processes have used of them."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.reports = QuotaReports(broker)
        self.network = Sensors(broker.shared, 0, 1000)
        self.samples = broker.shared.sizes.quota_samples

    def set(self, *quotas: tuple[dict[str, str | None], dict[str, float]]) -> None:
        found = {entity_of(entity.items()): values for entity, values in quotas}
        self.broker.quotas = QuotaTable(found)

    def add(self, key: str, user: str, client_id: str, amount: int) -> None:
        sensor = sensor_of(key, Bound(1.0, user, client_id))
        assert sensor is not None
        self.network.add(sensor, amount, NOW_MS)

    @property
    def rows(self) -> dict[tuple[str, str, str], QuotaUse]:
        found, _ = self.reports.use(NOW_MS)
        return {(one.quota, one.user, one.client_id): one for one in found}


@pytest.fixture
def case(tmp_path: Path) -> Iterator[Case]:
    with world(tmp_path) as made:
        yield Case(made.broker)


def test_a_quota_is_there_before_it_is_used(case: Case) -> None:
    case.set(({USER: "u"}, {PRODUCER_BYTE_RATE: 100.0}))
    assert case.rows == {
        (PRODUCER_BYTE_RATE, "u", ""): QuotaUse(PRODUCER_BYTE_RATE, "u", "", 100.0, 0.0, 0, 0)
    }


def test_the_rate_is_that_of_all_samples(case: Case) -> None:
    case.set(({CLIENT_ID: "c"}, {PRODUCER_BYTE_RATE: 100.0, REQUEST_PERCENTAGE: 20.0}))
    seconds = case.samples - 1 + 0.5
    case.add(PRODUCER_BYTE_RATE, "", "c", 420)
    case.add(REQUEST_PERCENTAGE, "", "c", 1_000_000_000)  # ns
    assert case.rows[PRODUCER_BYTE_RATE, "", "c"].used == pytest.approx(420 / seconds)
    assert case.rows[REQUEST_PERCENTAGE, "", "c"].used == pytest.approx(100 / seconds)


def test_throttled_requests_add_up_over_reports(case: Case) -> None:
    case.set(({USER: "u"}, {PRODUCER_BYTE_RATE: 100.0}))
    for _ in range(2):
        case.reports.take(ClientReport(throttled=(Throttled(PRODUCER_BYTE_RATE, "u", "", 3, 500),)))
    row = case.rows[PRODUCER_BYTE_RATE, "u", ""]
    assert (row.throttled_requests, row.throttled_ms) == (6, 1000)
    case.set()
    assert case.rows == {}


def test_each_client_has_a_default_quota_for_itself(case: Case) -> None:
    case.set(
        ({CLIENT_ID: None}, {PRODUCER_BYTE_RATE: 100.0}), ({IP: None}, {"connection_creation_rate": 1.0})
    )
    case.reports.take(ClientReport(clients=(("u", "a"), ("u", "b"))))
    case.add(PRODUCER_BYTE_RATE, "", "b", 420)
    rows = case.rows
    assert rows[PRODUCER_BYTE_RATE, "", "<default>"].used is None
    assert rows[PRODUCER_BYTE_RATE, "", "a"].used == 0
    assert rows[PRODUCER_BYTE_RATE, "", "b"].used
    assert {row.limit for row in rows.values()} == {100.0}
    assert len(rows) == 3


def test_the_quotas_that_are_used_most_are_shown_and_the_others_counted(case: Case) -> None:
    case.set(({CLIENT_ID: None}, {PRODUCER_BYTE_RATE: 100.0}))
    case.reports.take(ClientReport(clients=tuple(("u", f"c-{number}") for number in range(MAX_SHOWN + 7))))
    case.add(PRODUCER_BYTE_RATE, "", f"c-{MAX_SHOWN + 6}", 420)
    found, left_out = case.reports.use(NOW_MS)
    assert (len(found), left_out) == (1 + MAX_SHOWN, 7)
    assert (PRODUCER_BYTE_RATE, "", f"c-{MAX_SHOWN + 6}") in case.rows


def test_the_number_of_remembered_clients_is_bounded(case: Case) -> None:
    case.set(({CLIENT_ID: None}, {PRODUCER_BYTE_RATE: 100.0}))
    for number in range(3 * MAX_KNOWN):
        name = f"c-{number}"
        throttled = (Throttled(PRODUCER_BYTE_RATE, "", name, 1, 1),)
        case.reports.take(ClientReport(throttled=throttled, clients=(("u", name),)))
    found, left_out = case.reports.use(NOW_MS)
    assert len(found) - 1 + left_out == MAX_KNOWN


def test_names_of_clients_are_printable(case: Case) -> None:
    case.set(({CLIENT_ID: None}, {PRODUCER_BYTE_RATE: 100.0}))
    case.reports.take(ClientReport(clients=(("u", "a\n" + "b" * 500),)))
    (name,) = {client_id for _, _, client_id in case.rows} - {"<default>"}
    assert name.startswith("a?b")
    assert len(name) == 128


def test_partitions_that_are_created_use_their_quota(case: Case) -> None:
    case.set(({CLIENT_ID: "raw"}, {CONTROLLER_MUTATION_RATE: 100.0}))
    quota = MutationQuotas(case.broker).of_client(client_request(ApiKey.CREATE_TOPICS, 7, b""), 6)
    quota.record(7)
    ((row,), _) = case.reports.use(time.monotonic_ns() // 1_000_000)
    assert row.used == pytest.approx(7 / (case.samples - 0.5), rel=0.1)
