"""Settings of the transaction coordinator: each is that of its name."""

import pytest
from msgspec.structs import asdict

from kbroker.config.broker import BrokerConfig
from kbroker.control.transactions.settings import TransactionSettings

NAMES = {
    "max_timeout_ms": "transaction.max.timeout.ms",
    "id_expiration_ms": "transactional.id.expiration.ms",
    "abort_interval_ms": "transaction.abort.timed.out.transaction.cleanup.interval.ms",
    "remove_interval_ms": "transaction.remove.expired.transaction.cleanup.interval.ms",
    "retry_backoff_ms": "add.partitions.to.txn.retry.backoff.ms",
    "retry_backoff_max_ms": "add.partitions.to.txn.retry.backoff.max.ms",
}


def test_the_defaults_are_those_of_a_broker_without_settings() -> None:
    assert asdict(TransactionSettings.of(BrokerConfig())) == asdict(TransactionSettings())


@pytest.mark.parametrize("field", NAMES)
def test_each_number_is_that_of_its_setting(field: str) -> None:
    default = asdict(TransactionSettings())
    value = default[field] + 1
    changed = asdict(TransactionSettings.of(BrokerConfig({NAMES[field]: str(value)})))
    assert {each: changed[each] for each in changed if changed[each] != default[each]} == {field: value}
