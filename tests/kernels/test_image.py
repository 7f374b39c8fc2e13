"""The broker's kernels come from an image, without numba; the image is never older than their
sources."""

import ast
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from kbroker.kernels import cache, image, plain
from kbroker.kernels.linking import object_image
from kbroker.kernels.linking.object_image import CompiledKernel
from kbroker.kernels.linking.shared_image import is_linked
from kbroker.kernels.warm import modules
from tests.kernels.kernels_of_numba import all_kernels
from tests.kernels.linking.objects import compiled

PACKAGE = Path(cache.__file__).parent.parent

IN_A_BROKER = """
import importlib, sys
import numpy as np
from kbroker.kernels import image, warm
if not image.use():
    sys.exit("no image")
found = [importlib.import_module(name) for name in warm.modules()]
assert not {"numba", "llvmlite", "llvmlite.binding"} & set(sys.modules)
from kbroker.kernels import search
from kbroker.kernels.crc32c import crc32c, crc32c_of
assert crc32c(b"123456789") == 0xE3069283
assert type(crc32c_of).__name__ == "builtin_function_or_method"
for wrong in ((1,), ("text", 9), (np.zeros(3), np.zeros(3))):
    try:
        crc32c_of(*wrong)
    except (TypeError, ValueError):
        continue
    sys.exit(f"{wrong} taken")
print("as it should be")
"""

BY_LLVM = """
import sys
from kbroker.kernels import image
print(image.use(), type(image.in_use()).__name__, "llvmlite.binding" in sys.modules)
"""

IN_A_TABLE = """
@environment = common global ptr null
@table = constant ptr @labs
declare i64 @labs(i64)
define ptr @f() {
  store ptr @table, ptr @environment
  ret ptr @table
}
"""


def python(code: str, **environment: str) -> str:
    """Standard output of a process of its own; its error output when it fails."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=PACKAGE.parent,
        env=os.environ | environment,
    )  # fmt: skip
    return done.stdout.strip() if done.returncode == 0 else done.stderr


def test_the_image_has_every_kernel_needs_no_numba_and_checks_arguments() -> None:
    if not image.path().exists():
        pytest.skip("`make kernels` writes it")
    assert python(IN_A_BROKER) == "as it should be"


@pytest.mark.parametrize(
    "content", [None, b"", b"\x80\x04N.", object_image.MAGIC, object_image.packed([])[:-1]]
)
def test_without_an_image_that_fits_numba_is_used(tmp_path: Path, content: bytes | None) -> None:
    look = "from kbroker.kernels import image; print(image.use(), image.in_use(), image.path())"
    home = {"XDG_CACHE_HOME": str(tmp_path)}
    used, now, path = python(look, **home).split()
    assert (used, now) == ("False", "None")
    if content is not None:
        Path(path).write_bytes(content)
        assert python(look, **home).split()[0] == "False"


@pytest.mark.parametrize("field", ["wrapper", "environment"])
def test_an_image_whose_code_lacks_a_name_is_not_used(tmp_path: Path, field: str) -> None:
    path = image_path(tmp_path)
    whole = CompiledKernel("module", "add", compiled(), "add", "environment")
    path.write_bytes(image.made([whole]))
    assert is_linked(path.read_bytes())
    assert taken(tmp_path)
    path.write_bytes(image.made([replace(whole, **{field: getattr(whole, field) + "x"})]))
    assert not taken(tmp_path)


def test_code_that_the_linker_does_not_know_is_linked_by_llvm(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = image_path(tmp_path)
    with caplog.at_level(logging.DEBUG):
        made = image.made([CompiledKernel("module", "f", compiled(IN_A_TABLE), "f", "environment")])
    assert "LLVM links the kernels in each process: the address of labs in a table" in caplog.text
    assert [one.name for one in object_image.unpacked(made)] == ["f"]
    path.write_bytes(made)
    assert python(BY_LLVM, XDG_CACHE_HOME=str(tmp_path)) == "True ObjectImage True"


def test_all_kernels_linked_by_llvm_are_found_without_numba(tmp_path: Path) -> None:
    """As on a processor that the linker does not know."""
    made = object_image.packed(all_kernels())
    image_path(tmp_path).write_bytes(made)
    assert python(
        IN_A_BROKER.replace(', "llvmlite", "llvmlite.binding"', ""), XDG_CACHE_HOME=str(tmp_path)
    ) == ("as it should be")


def own_image(home: Path) -> Path:
    """A copy of this process's image in a cache folder of its own, which a broker would take."""
    if not image.path().exists():
        pytest.skip("`make kernels` writes it")
    path = image_path(home)
    path.write_bytes(image.path().read_bytes())
    assert taken(home)
    return path


def image_path(home: Path) -> Path:
    """Where a process with this cache folder looks for its image: an empty file, for now."""
    path = Path(python("from kbroker.kernels import image; print(image.path())", XDG_CACHE_HOME=str(home)))
    path.touch(0o600)
    return path


def taken(home: Path) -> bool:
    """Whether a process with this cache folder uses the image in it."""
    found = python("from kbroker.kernels import image; print(image.use())", XDG_CACHE_HOME=str(home))
    return {"True": True, "False": False}[found]


def test_an_image_that_others_can_write_or_that_is_damaged_is_not_used(tmp_path: Path) -> None:
    path = own_image(tmp_path)
    path.chmod(0o620)
    assert not taken(tmp_path)
    path.chmod(0o600)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    assert not taken(tmp_path)


def test_no_part_of_an_image_is_accepted_as_complete() -> None:
    whole = object_image.packed([CompiledKernel("module", "name", b"code" * 9, "wrapper", "environment")] * 2)
    assert [one.name for one in object_image.unpacked(whole)] == ["name", "name"]
    for end in range(len(whole)):
        with pytest.raises(ValueError):
            object_image.unpacked(whole[:end])


def test_whatever_a_kernel_takes_from_another_module_makes_the_image_stale_when_it_changes() -> None:
    known = set(cache.sources())
    for source in sorted(PACKAGE.rglob("*.py")):
        text = source.read_text()
        if "\n@kernel(" not in text and "\n@inlined" not in text:
            continue
        assert source in known, source
        if source.name == "ring.py":
            continue  # its kernels stand beside a class that takes more than layouts
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("kbroker."):
                if (node.module or "").startswith(plain.__name__):
                    continue  # what runs in place of compiled kernels is in none of them
                for name in [f"{node.module}.{alias.name}" for alias in node.names] + [node.module or ""]:
                    file = PACKAGE.parent / (name.replace(".", "/") + ".py")
                    assert file in known or not file.exists(), f"{source} takes from {file}"


def test_warm_finds_kernels_at_any_depth() -> None:
    assert "kbroker.io.replication.copy_kernel" in modules()
