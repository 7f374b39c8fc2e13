"""Constants of kernels: one name has one value, and codes of the protocol come from `codes.py`."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from kbroker.kernels.cache import KERNEL_FOLDER, sources
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.generate import kernel_codes

SOURCES = [
    source for source in sources() if source.name != "batch_layout.py"
]  # imported as a whole, by an alias


def constants(source: Path) -> Iterator[tuple[str, str]]:
    """(name, expression) of each constant of a module, outside of classes."""
    for node in ast.parse(source.read_text()).body:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name) and target.id.isupper():
                    yield target.id, ast.unparse(node.value)


def test_no_name_has_two_values() -> None:
    places = defaultdict(list)
    for source in SOURCES:
        for name, _ in constants(source):
            places[name].append(source.name)
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_a_kernel_defines_no_code_of_the_protocol(source: Path) -> None:
    codes = {member.name for enumeration in (ErrorCode, ApiKey) for member in enumeration}
    assert [name for name, _ in constants(source) if name in codes] == []


def test_kernels_have_the_codes_of_the_protocol() -> None:
    assert (KERNEL_FOLDER / "codes.py").read_text() == kernel_codes.page()


def test_a_kernel_imports_tables_and_not_their_words() -> None:
    """Names of words, one by one, were a third of some kernels."""
    lines = [
        f"{source.name}: {name.name}"
        for source in SOURCES
        for node in ast.walk(ast.parse(source.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kbroker.")
        for name in node.names
        if name.name.isupper()
    ]
    assert len(lines) < 100
