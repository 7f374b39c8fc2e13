"""Changes of dynamic configs reach the store, the slots, the IO workers and the network
processes."""

import asyncio
from pathlib import Path

import pytest

from kbroker.config.alter import Alteration, Op
from kbroker.config.broker import BrokerConfig
from kbroker.config.setting import ConfigError
from kbroker.control.changes import config_change
from kbroker.control.changes.config_change import alter, replace
from kbroker.control.changes.topic_change import create_topics
from kbroker.control.metadata.config_resource import BROKER, CLIENT_METRICS, GROUP, TOPIC
from kbroker.control.metadata.topic_plan import NewTopic
from kbroker.control.store.change import MAX_CHANGES
from kbroker.ipc.layout import Slot, SlotFlag
from kbroker.ipc.messages import ConfigurePartition, Settings
from kbroker.protocol.errors import ErrorCode, KafkaError
from tests.control.fakes import World, world


def change(
    made: World, kind: int, name: str, *changes: tuple[str, Op, str | None], validate_only: bool = False
) -> None:
    asyncio.run(alter(made.broker, kind, name, [Alteration(*one) for one in changes], validate_only))


@pytest.fixture
def made(tmp_path: Path):  # type: ignore[no-untyped-def]
    with world(tmp_path) as one:
        asyncio.run(
            create_topics(one.broker, [NewTopic("a", 2), NewTopic("own", 1, configs={"retention.ms": "9"})])
        )
        one.worker.calls.clear()
        yield one


def test_a_topic_config_is_in_force_for_appends_and_logs_before_the_answer(made: World) -> None:
    change(made, TOPIC, "a", ("max.message.bytes", Op.SET, "1000"), ("cleanup.policy", Op.SET, "compact"))
    for partition in made.broker.catalogue.topics["a"].partitions:
        assert made.shared.slots[partition.slot, Slot.MAX_MESSAGE_BYTES] == 1000
        assert made.shared.slots[partition.slot, Slot.FLAGS] == SlotFlag.COMPACTED
    reported = [call for call in made.worker.calls if isinstance(call, ConfigurePartition)]
    assert [call.config.max_message_bytes for call in reported] == [1000, 1000]


def test_an_io_worker_that_hangs_is_not_waited_for_and_gets_every_call(
    made: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config_change, "APPLY_S", 0.01)
    monkeypatch.setattr(config_change, "CALLS_AT_ONCE", 1)
    calls: list[object] = []

    def hang(body: object) -> "asyncio.Future[None]":
        calls.append(body)
        return asyncio.get_running_loop().create_future()

    monkeypatch.setattr(made.worker, "call", hang)
    change(made, TOPIC, "a", ("min.insync.replicas", Op.SET, "2"))
    partitions = made.broker.catalogue.topics["a"].partitions
    assert [call.slot for call in calls if isinstance(call, ConfigurePartition)] == [
        p.slot for p in partitions
    ]
    for partition in partitions:
        assert made.shared.slots[partition.slot, Slot.MIN_IN_SYNC_REPLICAS] == 2
    change(made, BROKER, "", ("log.retention.ms", Op.SET, "777"))
    assert made.network.images[-1].settings["log.retention.ms"] == "777"


def test_a_validated_change_changes_nothing(made: World) -> None:
    change(made, TOPIC, "a", ("max.message.bytes", Op.SET, "1000"), validate_only=True)
    assert made.broker.override(TOPIC, "a") == {}
    assert not made.worker.calls


def test_a_broker_setting_reaches_processes_and_the_topics_that_inherit_it(made: World) -> None:
    change(made, BROKER, "", ("log.retention.ms", Op.SET, "777"))
    settings = {"min.insync.replicas": "1", "log.retention.ms": "777"}
    assert made.worker.calls[0] == Settings(settings)
    reported = [call.slot for call in made.worker.calls if isinstance(call, ConfigurePartition)]
    assert reported == [p.slot for p in made.broker.catalogue.topics["a"].partitions]
    assert made.network.images[-1].settings == settings
    change(made, BROKER, "1", ("log.retention.ms", Op.SET, "888"))
    assert made.broker.topic_config("a").retention_ms == 888
    change(made, BROKER, "1", ("log.retention.ms", Op.DELETE, None))
    assert made.broker.topic_config("a").retention_ms == 777


def test_changes_survive_a_restart(made: World) -> None:
    change(made, TOPIC, "a", ("flush.ms", Op.SET, "5"))
    change(made, GROUP, "g", ("consumer.session.timeout.ms", Op.SET, "50000"))
    change(made, CLIENT_METRICS, "m", ("interval.ms", Op.SET, "1000"))
    made.broker.close()
    made.start()
    assert made.broker.override(TOPIC, "a") == {"flush.ms": "5"}
    assert made.broker.override(GROUP, "g") == {"consumer.session.timeout.ms": "50000"}
    assert made.broker.override(CLIENT_METRICS, "m") == {"interval.ms": "1000"}
    assert made.broker.topic_config("a").flush_ms == 5


def test_replacing_sets_what_is_named_and_drops_the_rest(made: World) -> None:
    change(made, TOPIC, "a", ("flush.ms", Op.SET, "5"), ("retention.ms", Op.SET, "6"))
    asyncio.run(replace(made.broker, TOPIC, "a", [("retention.ms", "7")], False))
    assert made.broker.override(TOPIC, "a") == {"retention.ms": "7"}


def test_an_unknown_topic_has_no_configs(made: World) -> None:
    with pytest.raises(KafkaError) as refused:
        change(made, TOPIC, "absent", ("flush.ms", Op.SET, "5"))
    assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_there_are_no_settings_for_all_topics(made: World) -> None:
    with pytest.raises(KafkaError, match="Default topic resources are not allowed") as refused:
        change(made, TOPIC, "", ("retention.ms", Op.SET, "1"))
    assert refused.value.code == ErrorCode.INVALID_REQUEST


def test_a_refused_change_leaves_everything_as_it_was(made: World) -> None:
    with pytest.raises(KafkaError) as refused:
        change(made, TOPIC, "a", ("flush.ms", Op.SET, "5"), ("retention.ms", Op.SET, "x"))
    assert refused.value.code is ErrorCode.INVALID_CONFIG
    assert made.broker.override(TOPIC, "a") == {}


def test_listeners_hear_of_what_has_changed(made: World) -> None:
    heard: list[tuple[int, str]] = []
    made.broker.listeners.config.append(lambda kind, name: heard.append((kind, name)))
    change(made, GROUP, "g", ("consumer.session.timeout.ms", Op.SET, "50000"))
    change(made, GROUP, "g", ("consumer.session.timeout.ms", Op.SET, "50000"))
    assert heard == [(GROUP, "g")]


def test_a_subscription_that_no_client_is_offered_is_kept_and_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for folder, offered in (("on", "true"), ("off", "false")):
        with world(tmp_path / folder, settings={"kbroker.client.telemetry.enable": offered}) as made:
            change(made, CLIENT_METRICS, "m", ("metrics", Op.SET, "*"))
            assert made.broker.override(CLIENT_METRICS, "m") == {"metrics": "*"}
        assert ("the client metrics subscription m has no effect" in caplog.text) is (offered == "false")


@pytest.mark.parametrize("name", ["", "1"])
def test_a_setting_that_is_only_stored_is_reported(
    made: World, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    line = "stored, and in force from the next start of the broker on: num.io.threads, num.network.threads"
    counts = [
        (setting, Op.SET, str(2 * made.broker.config.get_int(setting)))
        for setting in ("num.network.threads", "num.io.threads")
    ]
    change(made, BROKER, name, ("log.retention.ms", Op.SET, "777"))
    change(made, BROKER, name, *counts, validate_only=True)
    assert "next start" not in caplog.text
    change(made, BROKER, name, *counts, ("log.retention.ms", Op.SET, "778"))
    assert line in caplog.text
    assert "log.retention.ms" not in caplog.text
    caplog.clear()
    change(made, BROKER, name, *((setting, Op.DELETE, None) for setting, *_ in counts))
    assert line in caplog.text


@pytest.mark.parametrize("name", ["", "1"])
def test_a_request_for_too_many_broker_settings_stores_none(made: World, name: str) -> None:
    """A broker keeps settings that it does not know, as in Kafka."""
    many = [(f"unknown.{number}", Op.SET, "1") for number in range(MAX_CHANGES + 1)]
    before = dict(made.broker.override(BROKER, name))
    with pytest.raises(KafkaError) as refused:
        change(made, BROKER, name, *many)
    assert refused.value.code == ErrorCode.POLICY_VIOLATION
    assert made.broker.override(BROKER, name) == before


def test_settings_that_a_running_part_cannot_use_are_refused(made: World) -> None:
    seen: list[tuple[int, int]] = []

    def check(before: BrokerConfig, after: BrokerConfig) -> None:
        seen.append((before.get_int("max.connections"), after.get_int("max.connections")))
        if seen[-1][1] == 7:
            raise ConfigError("not seven")

    made.broker.listeners.settings.append(check)
    with pytest.raises(KafkaError, match="not seven") as refused:
        change(made, BROKER, "", ("max.connections", Op.SET, "7"))
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    assert "max.connections" not in made.broker.override(BROKER, "")
    assert not made.worker.calls
    change(made, BROKER, "1", ("max.connections", Op.SET, "8"))
    assert made.broker.override(BROKER, "1") == {"max.connections": "8"}
    assert seen == [(2**31 - 1, 7), (2**31 - 1, 8)]
