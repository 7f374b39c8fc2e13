"""Broker settings: topic creation and defaults that are not about one log."""

from kbroker.config.checks import at_least
from kbroker.config.setting import BOOLEAN, CLUSTER, HIGH, INT, LONG, Setting

# fmt: off
TOPICS = (
    Setting("auto.create.topics.enable", BOOLEAN, True, importance=HIGH,
            doc="Create a topic when a client first requests it."),
    Setting("delete.topic.enable", BOOLEAN, True, importance=HIGH,
            doc="Allow topics to be deleted."),
    Setting("num.partitions", INT, 1, at_least(1),
            doc="Number of partitions of a new topic, unless its creation specifies one."),
    Setting("default.replication.factor", INT, 1,
            doc="Number of replicas of a new topic, unless its creation specifies one."),
    Setting("min.insync.replicas", INT, 1, at_least(1), CLUSTER, HIGH,
            doc="Replicas that must be in sync for acks=all to succeed."),
    Setting("unclean.leader.election.enable", BOOLEAN, False, dynamic=CLUSTER, importance=HIGH,
            doc="Let a replica that is not in sync become leader when no other is left."),
    Setting("broker.session.timeout.ms", INT, 9000,
            doc="Time without progress after which an IO worker counts as dead and replicas of other sites lead "
                "its partitions."),
    Setting("replica.lag.time.max.ms", LONG, 30000, importance=HIGH,
            doc="A replica that has not had all of its leader's records for this long is out of sync."),
    Setting("auto.leader.rebalance.enable", BOOLEAN, True, importance=HIGH,
            doc="Return leadership to the preferred replica once it is in sync again."),
    Setting("leader.imbalance.check.interval.seconds", LONG, 300, at_least(1), importance=HIGH,
            doc="Seconds between checks whether leadership should return to preferred replicas."),
)
# fmt: on
