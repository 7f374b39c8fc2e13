"""Odd requests to kbroker and to Apache Kafka 4.3.1: the answers are the same, field by field.

The scenes make each field of a valid request odd, in one of its versions; KBROKER_EVERY_VERSION=1
does it in every one. Some parts end by the time that they took. `odd_configs` makes random changes
of configs, which build on one another.
"""

import os
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kbroker.protocol.api_keys import ApiKey
from tests.compat import odd_configs, odd_frames, odd_group_kinds
from tests.compat.odd_admin_scenes import ADMIN_SCENES
from tests.compat.odd_group_scenes import GROUP_SCENES
from tests.compat.odd_share_scenes import SHARE_SCENES
from tests.compat.odd_topic_scenes import TOPIC_SCENES
from tests.compat.odd_transaction_scenes import TRANSACTION_SCENES
from tests.compat.odd_world import KeptPeer, Scene, World, answers, compared, prepare, shown
from tests.compat.random_requests import SETTINGS
from tests.compat.raw import differences
from tests.compat.side_by_side import Lines, side_by_side, unlike

pytestmark = [pytest.mark.kafka, pytest.mark.compat, pytest.mark.long]

EVERY = os.environ.get("KBROKER_EVERY_VERSION") == "1"
SCENES: Mapping[str, Scene] = {
    **TOPIC_SCENES,
    **ADMIN_SCENES,
    **GROUP_SCENES,
    **TRANSACTION_SCENES,
    **SHARE_SCENES,
}
SEED = int(os.environ.get("KBROKER_CONFIG_SEED", "31"))
STEPS = int(os.environ.get("KBROKER_CONFIG_STEPS", "300"))
SETTLES_S = 10.0
CONFIGS_S = 10.0
"""For all steps, unless their number is given."""


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory, kafka_jars: str) -> Iterator[tuple[World, World]]:
    """Apache Kafka and kbroker, each with its world."""
    with made(tmp_path_factory.mktemp("odd")) as both:
        yield both


@pytest.fixture
def fresh_worlds(tmp_path: Path, kafka_jars: str) -> Iterator[tuple[World, World]]:
    """As `worlds`, without the groups and users that the scenes of other tests made: they differ,
    because a scene goes as far as its time allows, and Apache Kafka fails at some steps."""
    with made(tmp_path) as both:
        yield both


@contextmanager
def made(folder: Path) -> Iterator[tuple[World, World]]:
    with side_by_side(folder, SETTINGS) as (kafka, broker):
        ports = kafka.port, int(broker.bootstrap.rpartition(":")[2])
        kafkas, kbrokers = (KeptPeer(port, "odd") for port in ports)
        yield prepare(kafkas), prepare(kbrokers)
        for peer in (kafkas, kbrokers):
            peer.close()


def test_a_request_to_a_group_of_another_kind_has_the_same_answer(worlds: tuple[World, World]) -> None:
    with ThreadPoolExecutor(2) as pool:
        kafkas, kbrokers = pool.map(lambda world: odd_group_kinds.answers(world, EVERY), worlds)
    assert not unlike(*compared(kafkas, kbrokers))


def test_groups_of_every_kind_are_listed_as_by_kafka(worlds: tuple[World, World]) -> None:
    kafkas, kbrokers = (odd_group_kinds.listings(world) for world in worlds)
    assert not unlike(*compared(kafkas, kbrokers))


@pytest.mark.parametrize("name", SCENES)
def test_a_request_with_an_odd_field_has_the_same_answer(worlds: tuple[World, World], name: str) -> None:
    with ThreadPoolExecutor(2) as pool:
        kafkas, kbrokers = pool.map(lambda world: answers(world, name, SCENES[name], EVERY), worlds)
    assert not unlike(*compared(kafkas, kbrokers))


def test_an_odd_frame_is_answered_or_closed_upon_as_by_kafka(fresh_worlds: tuple[World, World]) -> None:
    with ThreadPoolExecutor(2) as pool:
        kafkas, kbrokers = pool.map(to_odd_frames, fresh_worlds)
    assert not unlike(*compared(kafkas, kbrokers))


def to_odd_frames(world: World) -> Lines:
    lines: Lines = []
    for label, api, version, frame in odd_frames.frames():
        try:
            answer = world.peer.send(len(frame).to_bytes(4) + frame)
            lines.append((label, odd_frames.answered(api, version, answer)))
        except TimeoutError:
            lines.append((label, "no answer"))
    return lines


def test_changes_of_configs_build_on_one_another_as_in_kafka(worlds: tuple[World, World]) -> None:
    found: list[str] = []
    ends = time.monotonic() + (CONFIGS_S if "KBROKER_CONFIG_STEPS" not in os.environ else 3600)
    for number, step in enumerate(odd_configs.steps(SEED, STEPS)):
        if time.monotonic() > ends:
            break
        kafkas, kbrokers = (shown(world.ask(step.api, 1, step.request())) for world in worlds)
        lines = differences(kafkas, kbrokers) if len(step.operations) < 2 else codes_of(kafkas, kbrokers)
        lines += settled(worlds, step)
        found += [f"{number} {step}: {line}" for line in lines]
    assert not found, f"KBROKER_CONFIG_SEED={SEED}\n" + "\n".join(found)


def codes_of(kafkas: Any, kbrokers: Any) -> list[str]:
    """Differences of the codes: of several mistakes Kafka names that which comes first in its hash
    table."""
    found = [[each["error_code"] for each in answer["responses"]] for answer in (kafkas, kbrokers)]
    return differences(*found)


def settled(worlds: tuple[World, World], step: odd_configs.Step) -> list[str]:
    """Where the stored settings differ; Kafka applies changes after it has answered."""
    ends = time.monotonic() + SETTLES_S
    while True:
        request = odd_configs.stored(step.kind, step.name)
        both: list[Any] = [world.ask(ApiKey.DESCRIBE_CONFIGS, 1, request) for world in worlds]
        lines = differences(*map(odd_configs.changed, both))
        if not lines or time.monotonic() > ends:
            return lines
        time.sleep(0.02)
