"""One min.insync.replicas for all brokers while eligible leader replicas are on (KIP-966)."""

import asyncio
from pathlib import Path

from kbroker.config.alter import Alteration, Op
from kbroker.control.changes.config_change import alter
from kbroker.control.metadata.config_resource import BROKER, TOPIC
from kbroker.control.metadata.eligible_leaders import FEATURE, are_on, one_min_isr
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.api.in_process import ask
from tests.control.fakes import World, world

MIN_ISR = "min.insync.replicas"


def change(made: World, name: str, op: Op, value: str | None) -> None:
    asyncio.run(alter(made.broker, BROKER, name, [Alteration(MIN_ISR, op, value)], False))


def set_level(made: World, level: int) -> int:
    """Error code of UpdateFeatures."""
    update = FeatureUpdateKey(FEATURE, level, False, 1 if level else 2)
    request = UpdateFeaturesRequest(1000, [update])
    return int(asyncio.run(ask(made.broker, ApiKey.UPDATE_FEATURES, 1, request)).error_code)


def test_they_are_on_unless_turned_off() -> None:
    assert are_on({})
    assert not are_on({FEATURE: 0})


def test_the_files_value_becomes_that_of_all_and_a_brokers_own_goes() -> None:
    stored = {(BROKER, "1"): {MIN_ISR: "3", "log.retention.ms": "1"}, (TOPIC, "a"): {MIN_ISR: "2"}}
    assert one_min_isr(stored, {MIN_ISR: "2"}) == {
        (BROKER, "1"): {MIN_ISR: None},
        (BROKER, ""): {MIN_ISR: "2"},
    }
    assert one_min_isr({}, {}) == {(BROKER, ""): {MIN_ISR: "1"}}
    assert one_min_isr({(BROKER, ""): {MIN_ISR: "5"}}, {}) == {}


def test_a_broker_stores_the_value_that_its_file_had_first(tmp_path: Path) -> None:
    with world(tmp_path, {MIN_ISR: "2"}) as made:
        assert made.broker.override(BROKER, "") == {MIN_ISR: "2"}
        made.settings[MIN_ISR] = "3"
        made.reboot()
        assert made.broker.config.get_int(MIN_ISR) == 2
        change(made, "", Op.SET, "4")
        made.reboot()
        assert made.broker.config.get_int(MIN_ISR) == 4


def test_turning_them_on_again_makes_it_one_again(tmp_path: Path) -> None:
    with world(tmp_path) as made:
        assert set_level(made, 0) == 0
        change(made, "", Op.DELETE, None)
        change(made, "1", Op.SET, "2")
        made.reboot()
        assert (made.broker.override(BROKER, ""), made.broker.override(BROKER, "1")) == ({}, {MIN_ISR: "2"})
        assert set_level(made, 1) == 0
        assert (made.broker.override(BROKER, ""), made.broker.override(BROKER, "1")) == ({MIN_ISR: "1"}, {})
        assert made.broker.config.get_int(MIN_ISR) == 1
