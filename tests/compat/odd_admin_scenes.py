"""Valid requests of administrators, each field of which is made odd: requests without time to the
controller, quotas, credentials, features, and groups of several members."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from kbroker.protocol.api_keys import ApiKey as K
from kbroker.protocol.messages import alter_client_quotas as acq
from kbroker.protocol.messages import alter_user_scram_credentials as ausc
from kbroker.protocol.messages import delete_topics as dt
from kbroker.protocol.messages import describe_configs as dcf
from kbroker.protocol.messages import leave_group as lg
from kbroker.protocol.messages import update_features as uf
from kbroker.protocol.schema import Struct
from tests.compat import odd_topic_scenes as topics
from tests.compat.odd_group_scenes import described, synced
from tests.compat.odd_world import OTHER, Scene, World

SALTED = bytes(range(32))
BROKER, BROKER_NAME = 4, "1"
SAFE_DOWNGRADE, UPGRADE = 2, 1


def late(make: Callable[[World, str, int], Any], world: World, name: str, version: int) -> Any:
    """The request without time: the controller refuses what reaches it."""
    request = make(world, name, version)
    request.timeout_ms = 0
    return request


def delete_existing(world: World, name: str, version: int) -> Struct:
    states = [dt.DeleteTopicState(OTHER), dt.DeleteTopicState("gone")]
    return dt.DeleteTopicsRequest([OTHER, "gone"], states, 0)


def quotas(world: World, name: str, version: int) -> Struct:
    entity = [acq.RequestEntityData("user", name), acq.RequestEntityData("client-id", None)]
    changes = [acq.OpData("producer_byte_rate", 1e12), acq.OpData("consumer_byte_rate", 5.0, True)]
    return acq.AlterClientQuotasRequest([acq.RequestEntryData(entity, changes)], False)


def credentials(world: World, name: str, version: int) -> Struct:
    added = [ausc.ScramCredentialUpsertion(name, 1, 4096, b"salt", SALTED)]
    return ausc.AlterUserScramCredentialsRequest([ausc.ScramCredentialDeletion("nobody", 1)], added)


def features(world: World, name: str, version: int) -> Struct:
    update = uf.FeatureUpdateKey("transaction.version", 2, False, UPGRADE)
    return uf.UpdateFeaturesRequest(10_000, [update], True)


def lower_features(world: World, name: str, version: int) -> Struct:
    update = uf.FeatureUpdateKey("transaction.version", 1, True, SAFE_DOWNGRADE)
    return uf.UpdateFeaturesRequest(10_000, [update], True)


def described_broker(world: World, name: str, version: int) -> Struct:
    keys = ["log.retention.ms", "compression.type"]
    return dcf.DescribeConfigsRequest([dcf.DescribeConfigsResource(BROKER, BROKER_NAME, keys)], True)


def leave_many(world: World, name: str, version: int) -> Struct:
    member, _ = synced(world, name)
    others = [lg.MemberIdentity("stranger"), lg.MemberIdentity("", "other")]
    return lg.LeaveGroupRequest(name, "", [lg.MemberIdentity(member, "i", "because"), *others])


VALIDATED = frozenset({"timeout_ms", "validate_only"})
TIMED = frozenset({"timeout_ms"})
DESCRIBED = frozenset({"configuration_keys", "include_documentation"})
"""All keys would include those that two brokers of a host cannot share."""
ADMIN_SCENES: Mapping[str, Scene] = {
    "create-late": Scene(K.CREATE_TOPICS, (2, 7), partial(late, topics.create), VALIDATED),
    "grow-late": Scene(K.CREATE_PARTITIONS, (0, 3), partial(late, topics.grow), VALIDATED),
    "delete-late": Scene(K.DELETE_TOPICS, (1, 6), delete_existing, TIMED),
    "reassign-late": Scene(K.ALTER_PARTITION_REASSIGNMENTS, (0, 1), partial(late, topics.reassign), TIMED),
    "elect-late": Scene(K.ELECT_LEADERS, (0, 2), partial(late, topics.elect), TIMED),
    "alter-quotas": Scene(K.ALTER_CLIENT_QUOTAS, (0, 1), quotas),
    "credentials": Scene(K.ALTER_USER_SCRAM_CREDENTIALS, (0, 0), credentials),
    "features": Scene(K.UPDATE_FEATURES, (0, 2), features, frozenset({"validate_only"})),
    "lower-features": Scene(K.UPDATE_FEATURES, (1, 2), lower_features, frozenset({"validate_only"})),
    "describe-broker": Scene(K.DESCRIBE_CONFIGS, (1, 4), described_broker, DESCRIBED, once=True),
    "leave-many": Scene(K.LEAVE_GROUP, (3, 5), leave_many, look=described),
}
