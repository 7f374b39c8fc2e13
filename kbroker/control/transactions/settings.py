"""The transaction coordinator's settings."""

from msgspec import Struct

from kbroker.config.broker import BrokerConfig


class TransactionSettings(Struct, frozen=True):
    """Values in Kafka's units. The defaults are Kafka's; `of` reads a broker's."""

    max_timeout_ms: int = 900_000
    id_expiration_ms: int = 604_800_000
    abort_interval_ms: int = 10_000
    remove_interval_ms: int = 3_600_000
    retry_backoff_ms: int = 20
    retry_backoff_max_ms: int = 100

    @classmethod
    def of(cls, config: BrokerConfig) -> "TransactionSettings":
        number = config.get_int
        return cls(
            max_timeout_ms=number("transaction.max.timeout.ms"),
            id_expiration_ms=number("transactional.id.expiration.ms"),
            abort_interval_ms=number("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
            remove_interval_ms=number("transaction.remove.expired.transaction.cleanup.interval.ms"),
            retry_backoff_ms=number("add.partitions.to.txn.retry.backoff.ms"),
            retry_backoff_max_ms=number("add.partitions.to.txn.retry.backoff.max.ms"),
        )
