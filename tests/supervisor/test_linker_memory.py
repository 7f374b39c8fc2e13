"""The linker's pages leave the parent's memory, and only those that the file still has."""

import ctypes
import mmap
import subprocess
import sys
from pathlib import Path

import pytest

from kbroker.supervisor import linker_memory

SIZE = 16 * mmap.PAGESIZE
MOST_LEFT = 4 << 20
LINK = """
import re
from llvmlite import binding as llvm
from kbroker.supervisor import linker_memory

llvm.initialize_native_target()
llvm.initialize_native_asmprinter()
machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
source = "define i32 @seven() {\\n ret i32 7\\n}"
module = llvm.parse_assembly(source)
engine = llvm.create_mcjit_compiler(module, machine)
engine.finalize_object()
first = linker_memory.give_back()
second = linker_memory.give_back()
again = llvm.create_mcjit_compiler(llvm.parse_assembly(source.replace("seven", "eight")), machine)
again.finalize_object()
import ctypes
seven = ctypes.CFUNCTYPE(ctypes.c_int)(engine.get_function_address("seven"))()
print(first, second, seven, bool(again.get_function_address("eight")))
"""


class Library:
    """A private mapping of a file, as the loader makes them."""

    def __init__(self, path: Path) -> None:
        path.write_bytes(b"x" * SIZE)
        with path.open("r+b") as file:
            self.pages = mmap.mmap(file.fileno(), SIZE, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(self.pages))
        assert self.pages[:].count(b"x") == SIZE  # all pages are mapped

    def protect(self) -> None:
        """Read-only from now on."""
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.mprotect(ctypes.c_void_p(self._address), ctypes.c_size_t(SIZE), mmap.PROT_READ) == 0


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return Library(tmp_path / "libours.so")


def test_pages_as_in_the_file_are_given_back_and_come_again(library: Library) -> None:
    library.protect()
    assert linker_memory.give_back("libours") == SIZE
    assert linker_memory.give_back("libours") == 0
    assert library.pages[:] == b"x" * SIZE


def test_a_mapping_that_was_written_to_stays(library: Library) -> None:
    library.pages[5 * mmap.PAGESIZE] = ord("y")
    library.protect()
    assert linker_memory.give_back("libours") == 0
    assert library.pages[5 * mmap.PAGESIZE] == ord("y")


def test_a_mapping_that_may_be_written_to_stays(library: Library) -> None:
    assert linker_memory.give_back("libours") == 0


def test_another_library_stays(library: Library) -> None:
    library.protect()
    assert linker_memory.give_back("libtheirs") == 0


def test_llvm_gives_its_pages_back_and_works_on() -> None:
    done = subprocess.run([sys.executable, "-c", LINK], capture_output=True, text=True, check=True)
    first, second, *rest = done.stdout.split()
    assert int(first) > 4 * MOST_LEFT
    assert int(second) < MOST_LEFT
    assert rest == ["7", "True"]
