"""Broker settings: producer ids and transactions."""

from kbroker.config.checks import at_least
from kbroker.config.setting import BOOLEAN, CLUSTER, HIGH, INT, LOW, SHORT, Setting

# fmt: off
TRANSACTIONS = (
    Setting("transaction.state.log.num.partitions", INT, 50, at_least(1), importance=HIGH,
            doc="Partitions of __transaction_state when it is created."),
    Setting("transaction.state.log.replication.factor", SHORT, 3, at_least(1), importance=HIGH,
            doc="Replicas of __transaction_state; clamped to what this host offers "
                "(kbroker.clamp.replication.factor)."),
    Setting("transaction.state.log.min.isr", INT, 2, at_least(1), importance=HIGH,
            doc="min.insync.replicas of __transaction_state; never more than its replicas."),
    Setting("transaction.state.log.segment.bytes", INT, 104857600, at_least(1), importance=HIGH,
            doc="Segment size of __transaction_state."),
    Setting("transaction.max.timeout.ms", INT, 900000, at_least(1), importance=HIGH,
            doc="Longest transaction timeout that a producer may request."),
    Setting("transactional.id.expiration.ms", INT, 604800000, at_least(1), importance=HIGH,
            doc="Time without activity after which a transactional id expires."),
    Setting("transaction.abort.timed.out.transaction.cleanup.interval.ms", INT, 10000, at_least(1),
            importance=LOW,
            doc="How often the broker aborts transactions that have exceeded their timeout."),
    Setting("transaction.remove.expired.transaction.cleanup.interval.ms", INT, 3600000, at_least(1),
            importance=LOW,
            doc="How often the broker removes expired transactional ids."),
    Setting("transaction.partition.verification.enable", BOOLEAN, True, dynamic=CLUSTER, importance=LOW,
            doc="Check that a partition belongs to an ongoing transaction before a transactional batch "
                "is appended."),
    Setting("producer.id.expiration.ms", INT, 86400000, at_least(1), CLUSTER, LOW,
            doc="Time without activity after which a partition forgets the state of an idempotent producer."),
    Setting("producer.id.expiration.check.interval.ms", INT, 600000, at_least(1), importance=LOW,
            internal=True,
            doc="How often expired producer state is looked for."),
    Setting("add.partitions.to.txn.retry.backoff.ms", INT, 20, at_least(1), importance=HIGH,
            doc="Pause between the broker's own retries while the previous transaction is still completing."),
    Setting("add.partitions.to.txn.retry.backoff.max.ms", INT, 100, at_least(0), importance=HIGH,
            doc="Maximum time that the broker retries while the previous transaction is completing, before it asks "
                "the client to retry."),
)
# fmt: on
