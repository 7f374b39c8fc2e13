"""Versions are those of the installed packages, and a start does not parse e-mail to find them."""

import importlib.metadata
import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from kbroker.kernels import installed

ROOT = Path(installed.__file__).parents[2]
LOOK = """
import sys
from kbroker.kernels import image
image.use()
print(image.path().name[:6], "importlib.metadata" in sys.modules, "email" in sys.modules)
"""


@pytest.mark.parametrize("package", ["numba", "llvmlite", "numpy"])
def test_versions_are_those_that_the_packages_have(package: str) -> None:
    assert installed.version(package) == importlib.metadata.version(package)


def test_no_start_reads_the_metadata_of_packages() -> None:
    done = subprocess.run([sys.executable, "-c", LOOK], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "image- False False\n"


def test_the_metadata_decides_where_folders_do_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours" / "__init__.py").touch()
    installed.version.cache_clear()
    with pytest.raises(importlib.metadata.PackageNotFoundError):
        installed.version("ours")
    for number in ("1.0", "2.0"):
        (tmp_path / f"ours-{number}.dist-info").mkdir()
        (tmp_path / f"ours-{number}.dist-info" / "METADATA").write_text(f"Name: ours\nVersion: {number}\n")
    assert installed.version("ours") in ("1.0", "2.0")
    installed.version.cache_clear()


def test_llvmlite_without_its_library_is_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert installed.has_compiler()
    made = ModuleSpec("llvmlite", None, is_package=True)
    made.submodule_search_locations = [str(tmp_path)]
    for spec in (made, None):
        monkeypatch.setattr(installed, "find_spec", lambda _name, spec=spec: spec)
        assert not installed.has_compiler()
