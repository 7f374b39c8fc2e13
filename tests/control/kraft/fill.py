"""A broker's control state with something of every kind in its store."""

import asyncio
import base64

from kbroker.config.acls import Acl
from kbroker.config.alter import Alteration, Op
from kbroker.control.changes.config_change import alter
from kbroker.control.changes.topic_change import create_topics
from kbroker.control.kraft.export import NEWEST, Exported, export
from kbroker.control.metadata.config_resource import BROKER, GROUP
from kbroker.control.metadata.delegation_tokens import DelegationToken
from kbroker.control.metadata.topic_plan import NewTopic
from kbroker.control.store.change import Change
from kbroker.ipc.messages import ScramCredential
from tests.control.fakes import World

ACL = Acl(2, "orders", 3, "User:ann", "*", 3, 3)
ENTITY = (("client-id", None), ("user", "ann"))
CREDENTIAL = ScramCredential(b"salt", b"stored", b"server", 4096)
TOKEN = DelegationToken("id", "User:ann", "User:admin", ("User:bob", "User:cid"), 10, 30, 20)


def fill(made: World) -> None:
    """Topics with settings, a quota, a user, a broker's and a group's setting, producer ids."""
    configs = {"retention.ms": "7", "write.caching": "false"}
    topics = [NewTopic("orders", 3, configs=configs), NewTopic("doomed", 1)]
    asyncio.run(create_topics(made.broker, topics))
    for kind, name, key, value in (
        (BROKER, "", "log.retention.ms", "77"),
        (GROUP, "g", "consumer.session.timeout.ms", "50000"),
        (GROUP, "g", "errors.deadletterqueue.topic.name", "dlq.g"),
    ):
        asyncio.run(alter(made.broker, kind, name, [Alteration(key, Op.SET, value)], validate_only=False))
    store = made.broker.stores.first
    store.apply(Change(client_quotas={ENTITY: {"producer_byte_rate": 5.5}}, scram={("ann", 1): CREDENTIAL}))
    store.apply(Change(acls={ACL: True}, tokens={TOKEN.token_id: TOKEN}))
    store.allocate_producer_ids(1000)


def directory_id(number: int) -> bytes:
    return bytes([number]) * 16


def exported(made: World, release: str | None = NEWEST) -> Exported:
    """The store of a broker whose log dirs have these ids."""
    ids = {
        log_dir: base64.urlsafe_b64encode(directory_id(number)).decode()[:22]
        for number, log_dir in enumerate(made.dirs)
    }
    return export(made.broker.stores.first, made.dirs, 1, ids, release, 5)
