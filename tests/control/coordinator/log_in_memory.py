"""A runtime's append and replay for tests of one machine: the log is a list."""

from typing import Protocol

from kbroker.control.coordinator.machine import Outcome, Record
from kbroker.protocol.errors import ErrorCode, KafkaError


class Machine(Protocol):
    """The machine that records are replayed into."""

    def replay(self, partition: int, key: bytes, value: bytes | None, timestamp_ms: int) -> None: ...


def complete(
    outcome: Outcome,
    code: ErrorCode,
    log: list[Record],
    machine: Machine,
    partition: int,
    now_ms: int,
    in_log: bool = False,
) -> None:
    """Append and replay the records of an outcome, unless the append fails with a code; then run
    the rest of it. in_log: a failed append is in the log. Raises KafkaError."""
    if code is ErrorCode.NONE or in_log:
        for record in outcome.records:
            log.append(record)
            machine.replay(partition, record.key, record.value, now_ms)
    if outcome.then is not None:
        outcome.then(code)
    elif code is not ErrorCode.NONE:
        raise KafkaError(code)
