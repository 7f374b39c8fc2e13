"""The registry's schemas, read without a lock while records are applied."""

import sys
import threading
from collections.abc import Iterator

import pytest

from kbroker.http.registry.state import State
from kbroker.http.registry.topic_records import Reference, SchemaRow

SUBJECTS, ROUNDS = 30, 60


@pytest.fixture
def hasty_threads() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_readers_meet_a_state_that_changes(hasty_threads: None) -> None:
    """Versions come and are deleted for good, as when another client changes them."""
    state = State()
    state._put(SchemaRow("base", 1, 1, "0"))
    rows = [
        SchemaRow(f"s{n}", version, 2, str(n), references=(Reference("base", "base", 1),))
        for n in range(SUBJECTS)
        for version in (1, 2)
    ]
    done = threading.Event()

    def change() -> None:
        try:
            for _ in range(ROUNDS):
                for row in rows:
                    state.apply(row.key(), row.value())
                for row in rows:
                    state.apply(row.key(), None)
        finally:
            done.set()

    writer = threading.Thread(target=change)
    writer.start()
    try:
        while not done.is_set():
            assert state.referencing("base", 1) in ([], [2])
            assert {row.subject for row in state.versions("s1")} <= {"s1"}
            state.ids_without_rows(rows)
    finally:
        writer.join()
