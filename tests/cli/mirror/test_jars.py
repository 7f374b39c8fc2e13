"""The jars of MirrorMaker 2 lie where no other user can write."""

import os
from pathlib import Path

import pytest

from kbroker.cli.mirror.jars import POM, resolve_once
from kbroker.kernels.trust import own_folder

MAVEN = """#!/bin/sh
for word; do case $word in -DoutputDirectory=*) folder=${word#*=};; esac; done
echo jar > "$folder/one.jar"
mkdir "$folder/../m2"
"""


@pytest.mark.parametrize("umask", [0o000, 0o002])
def test_no_other_user_can_write_to_the_jars_that_are_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, umask: int
) -> None:
    """Before, the folder had the mode of the umask: with 002 the next run refused it."""
    maven = tmp_path / "bin" / "mvn"
    for made in (maven.parent, tmp_path / "cache"):
        made.mkdir()
    maven.write_text(MAVEN)
    maven.chmod(0o755)
    monkeypatch.setenv("PATH", f"{maven.parent}:{os.environ['PATH']}")
    before = os.umask(umask)
    try:
        folder = own_folder(tmp_path / "cache" / "kbroker" / "mirror-1")
        resolve_once(Path("/opt/java/bin/java"), POM, folder)
    finally:
        os.umask(before)
    found = [folder, folder / "one.jar", folder.parent / "m2"]
    assert [oct(path.stat().st_mode & 0o077) for path in found] == ["0o0"] * 3
    assert own_folder(folder) == folder
