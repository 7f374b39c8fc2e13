"""A connection for requests about transactions."""

from tests.compat.raw import SocketPeer
from tests.compat.transaction_talk import TransactionTalk
from tests.peer.kbroker_node import KBroker


def talk_to(broker: KBroker) -> TransactionTalk:
    talk = TransactionTalk(SocketPeer(int(broker.bootstrap.rpartition(":")[2]), "raw"), "settings")
    talk.find_transaction_coordinator()
    return talk
