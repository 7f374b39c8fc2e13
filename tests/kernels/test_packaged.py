"""An image that a wheel carries is used where it fits, and never where it does not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kbroker.kernels import cache, image, packaged
from kbroker.kernels.linking import processor

ROOT = Path(cache.__file__).parents[2]
USE = "from kbroker.kernels import image, packaged; packaged.FOLDER = packaged.Path({!r}); print(image.use())"


def used(folder: Path, home: Path) -> str:
    """What `use` says in a process that finds images in a folder, and none that was compiled
    here."""
    done = subprocess.run(
        [sys.executable, "-c", USE.format(str(folder))],
        capture_output=True, text=True, check=True, cwd=ROOT, env=os.environ | {"XDG_CACHE_HOME": str(home)},
    )  # fmt: skip
    return done.stdout.strip()


def test_an_image_of_this_package_is_used_without_one_compiled_here(tmp_path: Path) -> None:
    if not image.path().exists():
        pytest.skip("`make kernels` writes it")
    own = image.path().read_bytes()
    for file_name, expected in (
        (packaged.name("x86-64-v2"), "True"),
        (packaged.name("x86-64-v2").replace(cache.digest(), "0" * 16), "False"),  # other sources
        (packaged.name("x86-64-v2").replace(sys.implementation.cache_tag or "", "cpython-399"), "False"),
        (packaged.name("x86-64-v4"), "False"),  # a level nobody asked about
    ):
        folder = tmp_path / file_name
        folder.mkdir()
        (folder / file_name).write_bytes(own)
        assert used(folder, tmp_path / "home") == expected, file_name
    (tmp_path / packaged.name("x86-64-v2") / packaged.name("x86-64-v2")).write_bytes(own[:-1])
    assert used(tmp_path / packaged.name("x86-64-v2"), tmp_path / "home") == "False"


def test_a_processor_without_the_features_of_a_level_does_not_get_its_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packaged, "FOLDER", tmp_path)
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    for level in packaged.LEVELS:
        (tmp_path / packaged.name(level)).touch()
    names = {level: tmp_path / packaged.name(level) for level in packaged.LEVELS}
    features = {*packaged.V3, "another"}
    monkeypatch.setattr(processor, "features", lambda: features)
    assert packaged.fitting() == [names["x86-64-v3"], names["x86-64-v2"]]
    features.remove("bmi2")
    assert packaged.fitting() == [names["x86-64-v2"]]
    features.remove("popcnt")
    assert packaged.fitting() == []
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    assert packaged.fitting() == []


def test_the_reason_names_what_the_processor_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor, "features", lambda: packaged.V3 - {"popcnt", "ssse3"})
    assert "need a processor of x86-64-v2, and this one lacks popcnt, ssse3;" in packaged.reason()
    monkeypatch.setattr(processor, "features", lambda: packaged.V2)
    assert "cannot be used (KBROKER_LOG_LEVEL=DEBUG logs why);" in packaged.reason()
