"""What an acknowledgement makes of an acquired range."""

import pytest

from kbroker.control.share import acknowledging
from kbroker.control.share.acknowledging import AcknowledgedBatch, AcknowledgeType, range_after, specs_of
from kbroker.control.share.limits import Limits
from kbroker.control.share.ranges import DeliveryState, Range
from kbroker.protocol.errors import ErrorCode, KafkaError

ACCEPT, RELEASE, REJECT, GAP, RENEW = (
    AcknowledgeType.ACCEPT,
    AcknowledgeType.RELEASE,
    AcknowledgeType.REJECT,
    AcknowledgeType.GAP,
    AcknowledgeType.RENEW,
)
HELD = Range(3, 7, DeliveryState.ACQUIRED, 2, "a", 500)
LIMITS = Limits(lock_ms=1000, delivery_count=3)


def test_neighbours_of_one_type_are_together() -> None:
    assert specs_of(AcknowledgedBatch(5, 9, [1, 1, 2, 2, 1]), REJECT) == [
        (5, 6, ACCEPT),
        (7, 8, RELEASE),
        (9, 9, ACCEPT),
    ]
    assert specs_of(AcknowledgedBatch(5, 9, [3]), REJECT) == [(5, 9, REJECT)]


def test_types_that_change_too_often_are_refused_before_all_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ten million took a gigabyte."""
    monkeypatch.setattr(acknowledging, "MAX_SPECS", 3)
    assert len(specs_of(AcknowledgedBatch(5, 9, [1, 2, 2, 1, 1]), REJECT)) == 3
    with pytest.raises(KafkaError, match="too often") as refused:
        specs_of(AcknowledgedBatch(5, 9, [1, 2, 1, 2, 99]), REJECT)
    assert refused.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("batch", "last_type"),
    [
        (AcknowledgedBatch(5, 4, [1]), REJECT),
        (AcknowledgedBatch(5, 7, [1, 1]), REJECT),
        (AcknowledgedBatch(5, 7, []), REJECT),
        (AcknowledgedBatch(5, 5, [-1]), REJECT),
        (AcknowledgedBatch(5, 5, [4]), REJECT),
        (AcknowledgedBatch(5, 5, [5]), RENEW),
    ],
)
def test_an_invalid_acknowledgement_is_refused(batch: AcknowledgedBatch, last_type: AcknowledgeType) -> None:
    with pytest.raises(KafkaError) as refused:
        specs_of(batch, last_type)
    assert refused.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("kind", "limits", "state", "deadline_ms"),
    [
        (ACCEPT, LIMITS, DeliveryState.ACKNOWLEDGED, 0),
        (RELEASE, LIMITS, DeliveryState.AVAILABLE, 0),
        (RELEASE, LIMITS._replace(backoff_ms=10), DeliveryState.AVAILABLE, 120),
        (RELEASE, LIMITS._replace(delivery_count=2), DeliveryState.ARCHIVED, 0),
        (REJECT, LIMITS, DeliveryState.ARCHIVED, 0),
        (REJECT, LIMITS._replace(dead_letters=True), DeliveryState.ARCHIVING, 0),
        (GAP, LIMITS._replace(dead_letters=True), DeliveryState.ARCHIVED, 0),
    ],
)
def test_the_state_after_it(
    kind: AcknowledgeType, limits: Limits, state: DeliveryState, deadline_ms: int
) -> None:
    assert range_after(HELD, kind, limits, 100) == Range(3, 7, state, 2, "", deadline_ms)


def test_renewed_it_is_held_for_longer() -> None:
    assert range_after(HELD, RENEW, LIMITS, 100) == Range(3, 7, DeliveryState.ACQUIRED, 2, "a", 1100)
