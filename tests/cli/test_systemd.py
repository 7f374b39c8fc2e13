"""The unit that `kbroker systemd` prints is one that systemd understands, and closed."""

import shutil
import subprocess
from pathlib import Path

import pytest

from kbroker.cli.systemd import unit

WORST = 1.5


def test_the_unit_starts_this_program_with_the_settings_given() -> None:
    text = unit(Path("/opt/kbroker/bin/kbroker"), "/etc/kbroker/server.properties")
    assert (
        "ExecStart=/opt/kbroker/bin/kbroker serve /etc/kbroker/server.properties --override log.dirs=" in text
    )
    assert "ProtectHome=yes" in text
    assert "ExecStart=/x/kbroker serve --override" in unit(Path("/x/kbroker"), "")
    assert "ProtectHome=read-only" in unit(Path("/", "home", "somebody", "bin", "kbroker"), "")


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
