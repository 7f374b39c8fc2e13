"""A write to a word is held against the writer that its row declares."""

import types

import pytest

from kbroker.ipc.layout import Slot
from kbroker.kernels.plain.writers import Rows, WrongWriter, may_write, process

START = 1 << 20


def run_as(module: str, table: Rows, address: int, size: int = 8) -> None:
    """Have a function of a module write."""
    code = types.ModuleType(module)
    code.__dict__.update(table=table, address=address, size=size)
    exec("table.check(address, size, lambda: 'kernel publish')", code.__dict__)


@pytest.mark.parametrize(
    ("writer", "who", "may"),
    [
        ("io", "io", True),
        ("io", "network", False),
        ("all", "network", True),
        ("network and control", "control", True),
        ("network and control", "io", False),
        ("client process", "control", True),
        ("client process", "io", False),
        ("its process", "http", True),
        ("io", "", True),
    ],
)
def test_a_declared_writer_names_its_processes(writer: str, who: str, may: bool) -> None:
    assert may_write(writer, who) == may


def test_tests_write_whatever_they_want() -> None:
    assert process() == ""


def test_a_word_of_another_writer_is_refused_by_table_field_and_kernel() -> None:
    table = Rows(START, START + 2 * Slot.STRIDE, Slot)
    run_as("kbroker.io.append", table, START + Slot.STRIDE + 8 * Slot.HIGH_WATERMARK)
    with pytest.raises(
        WrongWriter,
        match=r"kernel publish writes Slot\.HIGH_WATERMARK of row 1 as network; its writer is io",
    ):
        run_as("kbroker.net.pump_kernel", table, START + Slot.STRIDE + 8 * Slot.HIGH_WATERMARK)


def test_every_word_of_a_longer_write_is_checked() -> None:
    table = Rows(START, START + Slot.STRIDE, Slot)
    run_as("kbroker.io.x", table, START, 8 * Slot.GENERATION)
    with pytest.raises(WrongWriter, match=r"Slot\.GENERATION"):
        run_as("kbroker.io.x", table, START, 8 * Slot.GENERATION + 1)


def test_a_copy_belongs_to_its_owner() -> None:
    table = Rows(START, START + Slot.STRIDE, Slot, writer="network")
    run_as("kbroker.net.x", table, START, Slot.STRIDE)
    with pytest.raises(WrongWriter, match="its writer is network"):
        run_as("kbroker.io.x", table, START)
