"""Consent to transactions: no batch is overtaken, no transaction stays open; the real drain decides
as the model."""

from pathlib import Path

import pytest

from kbroker.ipc.layout import Completion, Operation
from kbroker.protocol.records import ControlType, build_control_batch
from tests.io.append.drain_case import DrainCase
from tests.io.append.transaction_entries import CONTROL_CLIENT, data, finish, push
from tests.models.consent import ConsentModel
from tests.models.explorer import Violation, explore
from tests.models.page import documented_states

OTHER_PRODUCER = 78


def test_no_batch_is_overtaken_and_no_transaction_stays_open() -> None:
    found = explore(ConsentModel())
    print(f"{found.states} states, {found.depth} deep")
    assert found.states > 1_000
    assert found.states == documented_states("consent")


def test_consent_that_any_end_makes_stale_lets_a_batch_overtake() -> None:
    """As it was once: another producer's marker, between the question and its answer, sent the
    first batch back."""
    with pytest.raises(Violation, match="no batch is overtaken") as broken:
        explore(ConsentModel(any_end=True))
    assert "a marker of another producer is in the log" in broken.value.steps
    assert broken.value.steps[-2:] == ["batch 1: check_producer, UNVERIFIED", "batch 2: appended"]


def test_a_connection_that_continues_before_the_answer_lets_a_batch_overtake() -> None:
    """As it was once, found by this model: a batch in the ring, not seen yet, while the one before
    it goes in again."""
    with pytest.raises(Violation, match="no batch is overtaken") as broken:
        explore(ConsentModel(released_early=True))
    assert broken.value.steps[-3:] == [
        "batch 2: check_producer, UNVERIFIED",
        "batch 1: appended",
        "batch 3: appended",
    ]


@pytest.mark.parametrize("bug", ["never_stale", "not_asked"])
def test_late_batch_that_needs_no_fresh_consent_stays_open(bug: str) -> None:
    with pytest.raises(Violation, match="has an end to come") as broken:
        explore(ConsentModel(**{bug: True}))
    assert broken.value.steps[-2:] == ["the marker is in the log: end_transaction", "batch 1: appended"]


class RealPartition:
    """A partition behind the real drain kernel. seen: of each batch what its last UNVERIFIED
    completion named."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.case = DrainCase(folder)
        self.seen: dict[int, int] = {}

    def append(self, number: int) -> bool:
        """Whether a batch is appended, rather than answered UNVERIFIED."""
        known = self.seen.get(number)
        operation = Operation.APPEND if known is None else Operation.APPEND_VERIFIED
        push(self.case, data(number - 1, verified_at=known or 0), operation)
        self.case.drain.run()
        (answer,) = self.case.answers()
        self.seen[number] = int(answer[Completion.BASE_OFFSET])
        assert answer[Completion.ERROR] in (0, Completion.UNVERIFIED)
        return bool(answer[Completion.ERROR] == 0)

    def mark(self, producer_id: int) -> None:
        """An end of a producer's transaction."""
        marker = build_control_batch(
            ControlType.ABORT, producer_id=producer_id, producer_epoch=0, coordinator_epoch=5, timestamp_ms=9
        )
        push(self.case, marker, client=CONTROL_CLIENT)
        self.case.drain.run()
        finish(self.case)


def test_real_drain_decides_as_the_model(tmp_path: Path) -> None:
    """On every way to an end. Where control has refused a batch, the next is out of sequence, which
    is no consent's."""
    found = explore(ConsentModel())
    ends = [state for state in found.parents if ConsentModel().is_end(state) and not state.refused]
    for number, end in enumerate(ends):
        real = RealPartition(tmp_path / str(number))
        for step in found.way_to(end):
            _follow(real, step)
    assert len(ends) > 5


def _follow(real: RealPartition, step: str) -> None:
    if step.startswith("batch") and step.endswith(("appended", "check_producer, UNVERIFIED")):
        number = int(step.split()[1].rstrip(":"))
        assert real.append(number) == step.endswith("appended"), step
    elif step.startswith("the marker"):
        real.mark(77)
    elif step.startswith("a marker of another"):
        real.mark(OTHER_PRODUCER)
