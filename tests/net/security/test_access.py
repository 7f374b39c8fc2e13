"""What kernels ask before they serve a client, and that connections which are open feel a change of
ACLs."""

import socket

from kbroker.config import acls
from kbroker.config.acls import Acl
from kbroker.ipc.messages import AclDelta, Image, PartitionImage, TopicImage
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.frame import encode_request
from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from kbroker.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kbroker.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.net.conftest import NodeFactory
from tests.net.doubles import NetNode, ask
from tests.net.requests import PRODUCE, batch, fetch, produce, read_produce

AUTHORIZER = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
ANONYMOUS = "User:ANONYMOUS"


def allow(operation: int, kind: int = acls.TOPIC, name: str = "t", permission: int = acls.ALLOW) -> Acl:
    return Acl(kind, name, acls.LITERAL, ANONYMOUS, "*", operation, permission)


def change(node: NetNode, *added: Acl, removed: tuple[Acl, ...] = ()) -> None:
    node.image = Image(node.image.version + 1, False, (), acls=AclDelta(added, removed))
    node.control.send(node.image)


def in_transaction(link: socket.socket, name: str) -> int:
    """The error code of a transactional batch."""
    parts = [PartitionProduceData(0, batch(producer=(5, 0, 0), transactional=True))]
    request = ProduceRequest(name, -1, 1000, [TopicProduceData("t", bytes(16), parts)])
    answer = read_produce(ask(link, encode_request(PRODUCE, 9, 1, "test", request)), 9)
    return answer.responses[0].partition_responses[0].error_code


def test_produce_is_refused_and_allowed_as_acls_change_on_one_connection(node_factory: NodeFactory) -> None:
    node = node_factory({"t": 1}, settings=AUTHORIZER)
    link = node.connect()
    assert produce(link, batch()).error_code == REFUSED
    change(node, allow(acls.WRITE))
    assert produce(link, batch()).error_code == 0
    assert produce(link, batch(), 13).error_code == 0
    change(node, allow(acls.ALL, permission=acls.DENY))
    assert produce(link, batch()).error_code == REFUSED
    assert produce(link, batch(), 13).error_code == REFUSED
    assert len(node.worker.batches) == 2


def test_a_missing_topic_is_hidden_from_clients_that_may_not_write_to_it(node_factory: NodeFactory) -> None:
    node = node_factory({"t": 1}, settings=AUTHORIZER)
    link = node.connect()
    assert produce(link, batch(), topic="absent").error_code == REFUSED
    change(node, allow(acls.WRITE, name="absent"))
    assert produce(link, batch(), topic="absent").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_new_topic_is_open_to_clients_that_may_write_to_all(node_factory: NodeFactory) -> None:
    node = node_factory({"t": 1}, settings=AUTHORIZER)
    link = node.connect()
    change(node, allow(acls.WRITE, name="*"))
    part = PartitionImage(0, 0, 1, str(node.folders[0]))
    node.control.send(Image(9, False, (TopicImage("later", bytes(15) + b"\x09", False, (part,)),)))
    assert produce(link, batch(), topic="later").error_code == 0


def test_a_transactional_id_must_be_allowed(node_factory: NodeFactory) -> None:
    node = node_factory({"t": 1}, settings=AUTHORIZER)
    link = node.connect()
    change(node, allow(acls.WRITE), allow(acls.WRITE, acls.TRANSACTIONAL_ID, "mine"))
    assert in_transaction(link, "mine") == 0
    for other in ("other", "ours", "min", "mine2"):  # the answer of one id is no answer for another
        assert in_transaction(link, other) == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert in_transaction(link, "mine") == 0
    change(node, removed=(allow(acls.WRITE, acls.TRANSACTIONAL_ID, "mine"),))
    assert in_transaction(link, "mine") == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_fetch_is_refused_and_allowed_as_acls_change(node_factory: NodeFactory) -> None:
    node = node_factory({"t": 1}, settings=AUTHORIZER)
    link = node.connect()
    change(node, allow(acls.WRITE))
    produce(link, batch())
    assert fetch(link).responses[0].partitions[0].error_code == REFUSED
    change(node, allow(acls.READ))
    assert fetch(link).responses[0].partitions[0].error_code == 0
    assert fetch(link, topic="absent").responses[0].partitions[0].error_code == REFUSED
    opened = fetch(link, session=(0, 0))
    assert opened.responses[0].partitions[0].error_code == 0
    change(node, allow(acls.READ, permission=acls.DENY))
    again = fetch(link, session=(opened.session_id, 1), partitions={})
    assert again.responses[0].partitions[0].error_code == REFUSED


def test_requests_that_control_may_refuse_are_not_answered_here(node_factory: NodeFactory) -> None:
    node = node_factory({"t": 1}, settings=AUTHORIZER)
    topics = [ListOffsetsTopic("t", [ListOffsetsPartition(0, -1, -1)])]
    for api, request in ((2, ListOffsetsRequest(topics=topics)), (22, InitProducerIdRequest(None, 1000))):
        link = node.connect()
        assert ask(link, encode_request(api, 4, 1, "test", request)) == b""  # control's double closes
    assert [request.api_key for request in node.control.requests] == [2, 22]


def test_a_super_user_is_not_checked(node_factory: NodeFactory) -> None:
    node = node_factory({"t": 1}, settings={**AUTHORIZER, "super.users": ANONYMOUS})
    link = node.connect()
    assert produce(link, batch()).error_code == 0
    assert produce(link, batch(), topic="absent").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_hosts_that_acls_name_are_distinguished(node_factory: NodeFactory) -> None:
    node = node_factory({"t": 1}, settings=AUTHORIZER)
    here, there = node.connect("10.0.0.1"), node.connect("10.0.0.2")
    change(node, allow(acls.WRITE)._replace(host="10.0.0.1"))
    assert produce(here, batch()).error_code == 0
    assert produce(there, batch()).error_code == REFUSED
