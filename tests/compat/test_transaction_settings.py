"""What the settings of transactions promise, by a running kbroker; its transaction log read by
Apache Kafka's tool."""

import re
import time
from collections.abc import Callable

import pytest

from kbroker.protocol.errors import ErrorCode
from tests.compat.clients.transactional_clients import read_to_end
from tests.compat.transaction_connection import talk_to
from tests.compat.transaction_talk import TransactionTalk
from tests.peer.kbroker_node import KBroker
from tests.peer.tools import dump_log

pytestmark = pytest.mark.compat

PATIENCE_S = 90
BrokerFactory = Callable[..., KBroker]


def wait_for_state(talk: TransactionTalk, state: str) -> None:
    """Until DescribeTransactions says so; "" for an id that is not known any more."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        (found,) = talk.describe("state").transaction_states
        if found.transaction_state == state:
            return
        assert time.monotonic() < deadline, f"still {found.transaction_state!r}"
        time.sleep(0.05)


def test_transaction_past_its_timeout_is_aborted_and_its_producer_fenced(
    broker_factory: BrokerFactory,
) -> None:
    broker = broker_factory({"transaction.abort.timed.out.transaction.cleanup.interval.ms": "100"})
    talk = talk_to(broker)
    talk.create_topic("a", 1)
    producer = talk.init("init", timeout_ms=3000)
    assert talk.produce("open", 12, producer, "a", 0, 0).responses[0].partition_responses[0].error_code == 0
    wait_for_state(talk, "CompleteAbort")
    assert read_to_end(broker.bootstrap, "settings-a") == []
    assert len(read_to_end(broker.bootstrap, "settings-a", "read_uncommitted")) == 1
    late = talk.produce("late", 12, producer, "a", 0, 1).responses[0].partition_responses[0]
    assert late.error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    talk.end("end", 5, producer, True)
    assert talk.lines[-1][1]["error_code"] == ErrorCode.INVALID_TXN_STATE
    assert talk.init("successor") == (producer[0], producer[1] + 2)
    talk.close()


def test_unused_id_is_forgotten(broker_factory: BrokerFactory) -> None:
    broker = broker_factory(
        {
            "transactional.id.expiration.ms": "500",
            "transaction.remove.expired.transaction.cleanup.interval.ms": "100",
        }
    )
    talk = talk_to(broker)
    first = talk.init("init")
    wait_for_state(talk, "")
    second = talk.init("init again")
    assert (second[0] != first[0], second[1]) == (True, 0)
    talk.close()


def test_longest_timeout_is_a_setting(broker_factory: BrokerFactory) -> None:
    talk = talk_to(broker_factory({"transaction.max.timeout.ms": "1000"}))
    assert talk.init("allowed", timeout_ms=1000)[0] >= 0
    assert talk.init("too long", timeout_ms=1001) == (-1, -1)
    assert talk.lines[-1][1]["error_code"] == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    talk.close()


@pytest.mark.parametrize(
    ("enabled", "error"), [("true", ErrorCode.TRANSACTION_ABORTABLE), ("false", ErrorCode.NONE)]
)
def test_partitions_are_verified_unless_switched_off(
    broker_factory: BrokerFactory, enabled: str, error: ErrorCode
) -> None:
    talk = talk_to(broker_factory({"transaction.partition.verification.enable": enabled}))
    talk.create_topic("a", 1)
    producer = talk.init("init")
    answer = talk.produce("not added", 11, producer, "a", 0, 0)
    assert answer.responses[0].partition_responses[0].error_code == error
    talk.close()


def test_transactions_survive_a_restart(broker_factory: BrokerFactory) -> None:
    broker = broker_factory()
    talk = talk_to(broker)
    talk.create_topic("a", 1)
    producer = talk.init("init")
    talk.produce("open", 12, producer, "a", 0, 0)
    broker.restart()
    talk.produce("goes on", 12, producer, "a", 0, 1)
    after = talk.end("commit", 5, producer, True)
    assert after == (producer[0], producer[1] + 1)
    assert len(read_to_end(broker.bootstrap, "settings-a")) == 2
    talk.close()


@pytest.mark.kafka
def test_kafkas_tool_reads_the_transaction_log(broker_factory: BrokerFactory, kafka_jars: str) -> None:
    broker = broker_factory({"transaction.state.log.num.partitions": "1"})
    talk = talk_to(broker)
    talk.create_topic("a", 2)
    producer = talk.init("init")
    talk.produce("open", 12, producer, "a", 1, 0)
    talk.end("commit", 5, producer, True)
    talk.close()
    broker.stop()
    segment = broker.data_dir / "__transaction_state-0" / f"{0:020}.log"
    reported = dump_log(segment, options=("--transaction-log-decoder",))
    assert re.findall(r'"transactionStatus":(\d)', reported) == ["0", "1", "2", "4"]
    assert reported.count('"transactionPartitions":[{"topic":"settings-a","partitionIds":[1]}]') == 2
    data = sorted((broker.data_dir / "settings-a-1").glob("*.log"))
    assert "endTxnMarker: COMMIT" in dump_log(*data)
