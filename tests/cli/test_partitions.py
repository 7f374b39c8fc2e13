"""Offsets that a command acts on."""

from typing import Any, cast

import pytest
from confluent_kafka.admin import OffsetSpec

from kbroker.cli import partitions
from kbroker.cli.partitions import Partition

ORDERS = ("orders", 0)


def test_a_record_that_comes_meanwhile_is_not_before_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log ends at 5 without a record of that time; then the sixth, which is later, is
    written."""
    log_end = 5

    def list_offsets(
        _broker: object, _admin: object, spec: Any, requested: list[Partition], *, committed: bool = False
    ) -> dict[Partition, tuple[int, int]]:
        nonlocal log_end
        answer = log_end if type(spec) is type(OffsetSpec.latest()) else -1
        log_end = 6
        return dict.fromkeys(requested, (answer, -1))

    monkeypatch.setattr(partitions, "list_offsets", list_offsets)
    no_client = cast("Any", None)
    assert partitions.before_time(no_client, no_client, [ORDERS], 1_000_000) == {ORDERS: 5}
