"""The unit that `kbroker systemd` prints is one that systemd understands, and closed."""

import shutil
import subprocess
from pathlib import Path

import pytest

from kbroker.cli.systemd import remarks, unit
from tests.cli.conftest import Shell

WORST = 1.5


def test_the_unit_starts_this_program_with_the_settings_given() -> None:
    text = unit(Path("/opt/kbroker/bin/kbroker"), "/etc/kbroker/server.properties")
    assert (
        "ExecStart=/opt/kbroker/bin/kbroker serve /etc/kbroker/server.properties --override log.dirs=" in text
    )
    assert "ProtectHome=yes" in text
    assert "ExecStart=/x/kbroker serve --override" in unit(Path("/x/kbroker"), "")
    assert "ProtectHome=read-only" in unit(Path("/", "home", "somebody", "bin", "kbroker"), "")


def test_names_with_spaces_and_signs_of_systemd_stay_one_word() -> None:
    text = unit(Path("/opt/kbroker/bin/kbroker"), "/etc/my settings/100%/$x.properties")
    assert 'serve "/etc/my settings/100%%/$$x.properties" --override' in text


def test_files_that_the_service_cannot_see_are_named() -> None:
    assert list(remarks(Path("/usr/bin/kbroker"), Path("/etc/kbroker/server.properties"))) == []
    (remark,) = remarks(Path("/var", "tmp", "kbroker"))
    assert remark.endswith("is not visible to the service, which has a /tmp of its own")


def test_a_folder_that_is_closed_to_others_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kbroker.cli.systemd.HIDDEN", ())
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_mode & 0o001 == 0:
            closed = folder  # pytest's own, at the latest
    assert list(remarks(tmp_path / "kbroker")) == [
        f"{tmp_path}/kbroker cannot be reached by the service's user: {closed} is closed to others"
    ]


@pytest.mark.parametrize("name", ["", ".", "/"])
def test_settings_that_are_no_file_are_refused(shell: Shell, name: str) -> None:
    done = shell("systemd", name, code=2)
    assert done.stderr == "kbroker: SERVER.PROPERTIES names a file, as /etc/kbroker/server.properties\n"
    assert not done.stdout


def test_settings_that_are_not_there_are_refused(shell: Shell, tmp_path: Path) -> None:
    missing = tmp_path / "server.properties"
    done = shell("systemd", missing, code=2)
    assert done.stderr == f"kbroker: SERVER.PROPERTIES: {missing}: No such file or directory\n"
    assert not done.stdout
    assert "File name too long" in shell("systemd", tmp_path / ("n" * 300), code=2).stderr
    missing.write_text("log.dirs=/var/lib/kbroker\n")
    assert f"serve {missing} " in shell("systemd", missing).text


def test_systemd_finds_it_closed(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("needs systemd-analyze")
    file = tmp_path / "kbroker.service"
    file.write_text(unit(Path("/bin/true"), ""))
    done = subprocess.run(
        [analyze, "security", "--offline=true", f"--threshold={WORST * 10:.0f}", str(file)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if "Unknown" in done.stderr or "unrecognized" in done.stderr:
        pytest.skip("this systemd-analyze knows no --offline")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
