"""The page travels in the package: small, whole, and without anything from elsewhere."""

import gzip
import re
from pathlib import Path

from kbroker.http.console.static_files import FOLDER, PAGE, load

MAX_BYTES = 200_000
ELSEWHERE = re.compile(r"""(?:src|href|from|import|url)\s*[=(]?\s*["']?(?:https?:)?//""")


def test_the_page_is_small() -> None:
    files = load()
    assert PAGE in files
    assert sum(len(file.data) for file in files.values()) < MAX_BYTES
    assert sum(len(file.packed) for file in files.values()) < MAX_BYTES // 3
    assert all(gzip.decompress(file.packed) == file.data for file in files.values())


def test_nothing_is_loaded_from_elsewhere_and_no_script_or_style_is_inline() -> None:
    for name, file in load().items():
        text = file.data.decode()
        if not name.startswith("vendor/"):
            assert not ELSEWHERE.search(text), name
    page = load()[PAGE].data.decode()
    assert "<style" not in page
    assert not re.search(r"<script(?![^>]*\bsrc=)", page)
    assert not re.search(r"\son\w+=|\sstyle=", page)


def test_every_module_that_is_imported_is_there() -> None:
    for path in FOLDER.rglob("*.js"):
        for target in re.findall(r'from "(\.[^"]+)"', path.read_text()):
            assert (path.parent / target).resolve().is_file(), f"{path}: {target}"


def test_text_never_becomes_markup() -> None:
    for path in FOLDER.rglob("*.js"):
        if "vendor" not in path.parts:
            assert not re.search(
                r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b", path.read_text()
            )


def test_vendored_files_come_with_their_licence() -> None:
    assert "The MIT License" in (FOLDER / "vendor" / "LICENSE").read_text()
    assert {Path(name).parent.as_posix() for name in load()} == {".", "pages", "vendor"}
