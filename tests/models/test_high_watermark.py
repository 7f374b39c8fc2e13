"""Replicas: what acks=all has answered is in every log that may be elected, whichever process dies;
the real objects publish and truncate as the model."""

import itertools
import random
import re
import time
from pathlib import Path

import pytest

from kbroker.io.replication import following, leading
from tests.models import high_watermark
from tests.models.explorer import Violation, explore
from tests.models.high_watermark import MarkModel, MarkState
from tests.models.page import documented_states
from tests.models.real_replicas import RealReplicas

WALKS, STEPS = 10, 60


def test_acknowledged_records_survive_leaders_that_die() -> None:
    found = explore(MarkModel())
    print(f"{found.states} states, {found.depth} deep")
    assert found.states > 20_000
    assert found.states == documented_states("high_watermark")


@pytest.mark.parametrize(
    "bug", ["largest", "any_epoch", "not_cut", "stored_first", "sent_first", "mark_alone"]
)
def test_bug_that_is_put_back_is_found(bug: str) -> None:
    with pytest.raises(Violation, match="in every log that may be elected") as broken:
        explore(MarkModel(**{bug: True}))
    elections = sum("elect" in step for step in broken.value.steps)
    assert elections == (bug in ("any_epoch", "not_cut", "mark_alone"))


def _taken(model: MarkModel, state: MarkState, *beginnings: str) -> MarkState:
    """The state after all steps with one of these beginnings, the first ones first, until none is
    left."""
    while True:
        steps = list(model.steps(state))
        chosen = [(name, after) for each in beginnings for name, after in steps if name.startswith(each)]
        if not chosen:
            return state
        state = chosen[0][1]


def _step(model: MarkModel, state: MarkState, name: str, after: MarkState, real: RealReplicas) -> MarkState:
    """Take a step of the model with the real objects; the state after all that they do with it."""
    who = int(number[0]) if (number := re.findall(r"(?:leader|follower|worker) (\d)", name)) else -1
    if name.startswith("leader") and "Leading.advance" in name:
        real.advance(who)
    elif name.startswith("leader") and "append" in name:
        real.append(who)
    elif name.startswith("leader"):
        leads = after.replicas[who]
        members = [after.replicas[number] for number in leads.waits_for]
        needed = max(leads.mark, leads.begun)
        complete = all(each.epoch == leads.epoch and len(each.log) >= needed for each in members)
        assert real.lead(who, leads.epoch, leads.waits_for) == complete
        after = _taken(model, after, f"leader {who}: Leading.advance")
    elif name.startswith("follower"):
        real.follow(who, state.leader, state.epoch)
        mine = f"follower {who}: "
        after = _taken(model, state, mine + "agree", mine + "copy", mine + "mark")
    elif name.endswith("is killed"):
        real.kill(who)
    elif "is back" in name:
        real.restart(who)
    else:
        assert name.startswith("control: "), name
    return after


@pytest.mark.parametrize("seed", range(12))
def test_real_replicas_publish_and_truncate_as_the_model_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Random ways through the model: after each step every log, high watermark and epoch is the
    model's."""
    monkeypatch.setattr(high_watermark, "RECORDS", 6)
    monkeypatch.setattr(high_watermark, "DEATHS", 4)
    for module in (leading, following):
        monkeypatch.setattr(module, "wake_process", lambda shared, process: None)
    clock = itertools.count(0, following.PAUSE_NS)
    monkeypatch.setattr(time, "monotonic_ns", lambda: next(clock))
    model, chance = MarkModel(), random.Random(seed)
    for walk in range(WALKS):
        (state,) = model.starts()
        real = RealReplicas(tmp_path / str(walk), high_watermark.REPLICAS)
        names: list[str] = []
        for _ in range(STEPS):
            steps = [step for step in model.steps(state) if "disk is lost" not in step[0]]
            if not steps:
                break
            name, after = chance.choice(steps)
            state = _step(model, state, name, after, real)
            names.append(name)
            for number, replica in enumerate(state.replicas):
                assert real.seen(number) == (replica.log, replica.mark, replica.epoch), (number, names)
                if replica.leads:
                    assert real.begun(number) == replica.begun, (number, names)
        real.close()
