"""An image's file is shared memory of those who run it, and only whole and unchanged ones run."""

import mmap
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kbroker.kernels.linking.areas import PAGE, Area
from kbroker.kernels.linking.linker import linked
from kbroker.kernels.linking.mapped_image import MappedImage
from kbroker.kernels.linking.mapping import Mapping
from kbroker.kernels.linking.object_image import CompiledKernel
from kbroker.kernels.linking.shared_image import Contents
from tests.descriptors import open_files
from tests.kernels.linking.objects import address_in, by_llvm, compiled, image_of, results, rights

ROOT = Path(__file__).parents[3]
RUN = """
import ctypes, sys
from kbroker.kernels.linking.mapped_image import MappedImage
with open(sys.argv[1], "rb") as file:
    image = MappedImage(file.fileno())
add = image._memory.start + image._kernels["module", "add"].wrapper
code = (ctypes.c_ubyte * int(sys.argv[3])).from_address(add & -4096)
print(ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(add)(3), sum(bytes(code)), flush=True)
sys.stdin.readline()
shown = False
for line in open("/proc/self/smaps"):
    if not line[0].isupper():
        shown = sys.argv[2] in line.split()[1:2] and line.rstrip().endswith(sys.argv[1])
    elif shown and line.split()[0] in ("Shared_Clean:", "Private_Clean:", "Private_Dirty:"):
        print(*line.split()[:2])
"""


@pytest.fixture
def image(tmp_path: Path) -> Path:
    file = tmp_path / "image"
    file.write_bytes(image_of(compiled()).packed())
    return file


def loaded(file: Path) -> MappedImage:
    with file.open("rb") as opened:
        return MappedImage(opened.fileno())


def test_no_page_can_be_written_and_run(image: Path) -> None:
    here = loaded(image)
    spans = Contents.of(image.read_bytes()).spans
    found = rights(image)
    assert found[0] == "r--p"
    assert found[spans[Area.CODE].start] == "r-xp"
    assert found[spans[Area.VARIABLES].start] == "rw-p"
    assert sorted(found.values()).count("r-xp") == 1
    assert not [one for one in found.values() if "w" in one and "x" in one]
    assert results(address_in(here)) == by_llvm(compiled())


def test_code_runs_from_a_copy_where_files_must_not_be_run(
    image: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a mount with noexec."""
    of_file = Mapping.of_file

    def refused(file: int, protection: int) -> Mapping:
        if protection & mmap.PROT_EXEC:
            raise PermissionError(1, "Operation not permitted")
        return of_file(file, protection)

    monkeypatch.setattr(Mapping, "of_file", refused)
    here = loaded(image)
    assert rights(image) == {}
    assert results(address_in(here)) == by_llvm(compiled())
    start = address_in(here)("add") & -PAGE
    (line,) = [
        one for one in Path("/proc/self/maps").read_text().splitlines() if one.startswith(f"{start:x}-")
    ]
    assert line.split()[1] == "r-xp"


def test_a_truncated_image_is_refused(image: Path) -> None:
    whole = image.read_bytes()
    for end in (0, 1, PAGE - 1, PAGE, 2 * PAGE, len(whole) - 1):
        image.write_bytes(whole[:end])
        with pytest.raises((ValueError, OSError)):
            loaded(image)
        assert rights(image) == {}  # it is not in memory any more


def test_an_image_with_a_changed_byte_is_refused(image: Path) -> None:
    whole = image.read_bytes()
    for position in (*range(0, len(whole), 97), *range(480, 720), len(whole) - 1):
        changed = bytearray(whole)
        changed[position] ^= 1
        image.write_bytes(changed)
        with pytest.raises(ValueError, match="not an image of linked kernels, or a damaged one"):
            loaded(image)
    assert rights(image) == {}
    image.write_bytes(whole)
    assert results(address_in(loaded(image))) == by_llvm(compiled())


def test_a_function_that_the_process_lacks_is_an_error(tmp_path: Path) -> None:
    source = "declare i64 @no_such_function()\ndefine i64 @f() {\n %v = call i64 @no_such_function()\n ret i64 %v\n}"
    file = tmp_path / "image"
    file.write_bytes(linked([CompiledKernel("module", "f", compiled(source), "f", "f")]).packed())
    with pytest.raises(ImportError, match="the process has no no_such_function, which kernels call"):
        loaded(file)
    assert rights(file) == {}


def test_processes_share_code_and_no_process_has_a_page_of_it_of_its_own(image: Path) -> None:
    """Two processes that know nothing of each other."""
    with image.open("rb") as written:
        os.fsync(written.fileno())  # pages that are not on the disk yet count as dirty
    size = Contents.of(image.read_bytes()).spans[Area.CODE].size
    command = [sys.executable, "-c", RUN, str(image), "r-xp", str(size)]
    both = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        for _ in range(2)
    ]
    reported = []
    for one in both:
        assert one.stdout is not None
        reported.append(one.stdout.readline())  # it runs the code and stays
    assert reported[0] == reported[1] != ""
    first, _ = both[0].communicate("\n", timeout=60)
    pages = dict(line.split() for line in first.splitlines())
    assert int(pages["Shared_Clean:"]) > 0
    assert (pages["Private_Clean:"], pages["Private_Dirty:"]) == ("0", "0")
    both[1].communicate("\n", timeout=60)
    assert [one.returncode for one in both] == [0, 0]


def test_the_file_is_not_kept_open(image: Path) -> None:
    before = open_files()
    here = loaded(image)
    assert open_files() == before
    assert address_in(here)("add")
