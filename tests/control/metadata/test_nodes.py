"""Each replica site is a node of its own: its id, its log dirs, and its ports."""

from msgspec.structs import replace

from kbroker.config.broker import BrokerConfig
from kbroker.control.metadata.catalogue import Replica
from kbroker.control.metadata.nodes import Nodes
from tests.control.fakes import ENDPOINT

SECOND = replace(ENDPOINT, port=9093)
SITES = {"log.dirs": "/a,/b,/c", "kbroker.replica.sites": "/a,/b;/c", "node.id": "5"}


def nodes() -> Nodes:
    return Nodes(BrokerConfig(SITES), {"PLAINTEXT": ENDPOINT}, {"PLAINTEXT@1": SECOND})


def test_a_replica_belongs_to_the_node_of_its_log_dir() -> None:
    replicas = [Replica("t", 0, log_dir, 0, 0) for log_dir in ("/a", "/b", "/c")]
    assert nodes().of(replicas) == [5, 5, 6]
    assert nodes().log_dirs() == [("/a", "/b"), ("/c",)]


def test_a_log_dir_that_no_site_has_any_more_is_of_the_first_node() -> None:
    assert nodes().site_of("/gone").node_id == 5


def test_a_listener_has_an_address_for_each_node() -> None:
    assert nodes().endpoint("PLAINTEXT", 0) == ENDPOINT
    assert nodes().endpoint("PLAINTEXT", 1) == SECOND
