"""Tables of kernels: no two fields overlap, each says what it means, and only its writers write
it."""

from collections import Counter

import pytest

from docs.shared_memory import Table, tables, writers
from kbroker.kernels.row import RowType

TABLES = list(tables())
PROCESSES = {"net": "network", "io": "io", "control": "control"}  # rooms that run in one process


def test_tables_of_all_packages_are_found() -> None:
    assert {"net", "io", "ipc", "control", "cleaner", "purgatory", "kernels"} <= {
        table.__module__.split(".")[1] for table in TABLES
    }


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.__name__)
def test_fields_do_not_overlap_and_lie_in_their_table(table: Table) -> None:
    size = table.WORDS if isinstance(table, RowType) else table.SIZE
    end = 0
    for field in table:
        assert end <= field.number == getattr(table, field.name), field.name
        end = field.number + field.count
    assert end <= size


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.__name__)
def test_every_field_says_its_unit_its_writer_and_its_meaning(table: Table) -> None:
    assert table.__doc__
    for field in table:
        assert field.unit, field.name
        assert field.writer, field.name
        assert field.meaning, field.name


def test_no_two_tables_have_one_name() -> None:
    assert [name for name, times in Counter(table.__name__ for table in TABLES).items() if times > 1] == []


def test_only_the_declared_process_writes_a_shared_word() -> None:
    written = writers()
    for table in TABLES:
        if not table.shared:
            continue
        for field in table:
            for module in written.get(f"{table.__name__}.{field.name}", []):
                process = PROCESSES.get(module.split("/")[0])
                allowed = field.writer in ("all", "its process", "producer", "consumer") or (
                    field.writer == "client process" and process in ("network", "control")
                )
                assert process is None or allowed or process in field.writer, f"{field} by {module}"
