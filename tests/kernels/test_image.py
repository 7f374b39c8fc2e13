"""The broker's kernels come from an image, without numba; the image is never older than their
sources."""

import ast
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from kbroker.kernels import cache, image, plain
from kbroker.kernels.warm import modules

PACKAGE = Path(cache.__file__).parent.parent

IN_A_BROKER = """
import importlib, sys
import numpy as np
from kbroker.kernels import image, warm
if not image.use():
    sys.exit("no image")
found = [importlib.import_module(name) for name in warm.modules()]
assert "numba" not in sys.modules
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


@pytest.mark.parametrize("content", [None, b"", b"\x80\x04N.", image.MAGIC, image.packed([])[:-1]])
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
    path, kernels = own_image(tmp_path)
    renamed = replace(kernels[-1], **{field: getattr(kernels[-1], field) + "x"})
    path.write_bytes(image.packed([*kernels[:-1], renamed]))
    assert not taken(tmp_path)


def own_image(home: Path) -> tuple[Path, list[image.CompiledKernel]]:
    """A copy of this process's image in a cache folder of its own, which a broker would take."""
    if not image.path().exists():
        pytest.skip("`make kernels` writes it")
    kernels = image.unpacked(image.path().read_bytes())
    path = Path(python("from kbroker.kernels import image; print(image.path())", XDG_CACHE_HOME=str(home)))
    path.write_bytes(image.packed(kernels))
    path.chmod(0o600)
    assert taken(home)
    return path, kernels


def taken(home: Path) -> bool:
    """Whether a process with this cache folder uses the image in it."""
    found = python("from kbroker.kernels import image; print(image.use())", XDG_CACHE_HOME=str(home))
    return {"True": True, "False": False}[found]


def test_an_image_that_others_can_write_or_that_is_damaged_is_not_used(tmp_path: Path) -> None:
    path, _ = own_image(tmp_path)
    path.chmod(0o620)
    assert not taken(tmp_path)
    path.chmod(0o600)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    assert not taken(tmp_path)


def test_no_part_of_an_image_is_taken_for_a_whole_one() -> None:
    whole = image.packed([image.CompiledKernel("module", "name", b"code" * 9, "wrapper", "environment")] * 2)
    assert [one.name for one in image.unpacked(whole)] == ["name", "name"]
    for end in range(len(whole)):
        with pytest.raises(ValueError):
            image.unpacked(whole[:end])


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
