"""The unit that `kbroker systemd` prints is one that systemd understands, and closed."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kbroker.cli.serve import EXIT_CONFIG
from kbroker.cli.systemd import foreign, program_of, remarks, unit
from kbroker.kernels.linking import object_image, shared_image
from kbroker.kernels.linking.areas import PAGE
from kbroker.kernels.linking.shared_image import PREFACE
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


def test_memory_is_never_both_written_and_run_where_the_wheel_brings_the_linked_kernels(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    linked, objects = tmp_path / "linked", tmp_path / "objects"
    linked.write_bytes(bytes(PREFACE) + shared_image.MAGIC + bytes(PAGE))
    objects.write_bytes(object_image.packed([]))
    linked.chmod(0o644)
    monkeypatch.setattr("kbroker.cli.systemd._owner", lambda path: "root")
    for fitting, right in (([], "no"), ([objects], "no"), ([linked, objects], "yes")):
        monkeypatch.setattr("kbroker.kernels.packaged.fitting", lambda found=fitting: found)
        assert f"\nMemoryDenyWriteExecute={right}\n" in shell("systemd").text


@pytest.mark.parametrize("why", ["owner", "mode", "link"])
def test_linked_kernels_that_the_service_does_not_trust_are_compiled(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    """Such a unit would refuse each start, and printing it again would change nothing."""
    linked = tmp_path / "linked"
    linked.write_bytes(bytes(PREFACE) + shared_image.MAGIC + bytes(PAGE))
    linked.chmod(0o664 if why == "mode" else 0o644)
    if why == "link":
        linked = tmp_path / "link"
        linked.symlink_to("linked")
    monkeypatch.setattr("kbroker.cli.systemd._owner", lambda path: "alice" if why == "owner" else "root")
    monkeypatch.setattr("kbroker.kernels.packaged.fitting", lambda: [linked])
    assert "\nMemoryDenyWriteExecute=no\n" in shell("systemd").text


def test_a_broker_that_refuses_its_settings_is_not_started_again() -> None:
    text = unit(Path("/opt/kbroker/bin/kbroker"), "/etc/kbroker/server.properties")
    assert f"RestartPreventExitStatus={EXIT_CONFIG}\n" in text


def test_a_start_of_the_service_ends_when_the_broker_is_ready() -> None:
    """And not after 90 s, systemd's limit: the check of large logs may take longer."""
    lines = unit(Path("/opt/kbroker/bin/kbroker"), "/etc/kbroker/server.properties").splitlines()
    assert {"Type=notify", "TimeoutStartSec=infinity"} <= set(lines)


def test_a_crash_of_the_service_leaves_no_passwords_in_a_core_dump() -> None:
    assert "\nLimitCORE=0\n" in unit(Path("/opt/kbroker/bin/kbroker"), "/etc/kbroker/server.properties")


def test_names_with_spaces_and_signs_of_systemd_stay_one_word() -> None:
    text = unit(Path("/opt/kbroker/bin/kbroker"), "/etc/my settings/100%/$x.properties")
    assert 'serve "/etc/my settings/100%%/$$x.properties" --override' in text


def test_a_dollar_in_a_path_is_doubled_only_in_the_command() -> None:
    """Only ExecStart has variables: other lines would name a folder that is not there."""
    lines = unit(Path("/x/kbroker"), "/etc/$a", [Path("/disk/$1/100%")]).splitlines()
    assert "ExecStart=/x/kbroker serve /etc/$$a" in lines
    assert "ReadWritePaths=/disk/$1/100%%" in lines
    assert "RequiresMountsFor=/disk/$1/100%%" in lines


@pytest.mark.parametrize(
    "value", [r"/disk/a\nExecStartPre=/bin/x", r"/disk/a\rb", r"/a,/b\u001b", r"/a\ud800"]
)
def test_a_line_break_of_the_settings_never_reaches_the_unit(
    shell: Shell, tmp_path: Path, value: str
) -> None:
    settings = tmp_path / "server.properties"
    settings.write_text(f"log.dirs={value}\n")
    refused = shell("systemd", settings, code=2)
    assert refused.text == ""
    assert refused.stderr.endswith(" has a character that no unit can hold\n")


def test_files_that_the_service_cannot_see_are_named() -> None:
    assert list(remarks(Path("/usr/bin/kbroker"), Path("/etc/kbroker/server.properties"))) == []
    (remark,) = remarks(Path("/var", "tmp", "kbroker"))
    assert remark.endswith("is not visible to the service, which has a private /tmp")


def test_files_in_a_home_are_hidden_unless_the_program_is_there_too() -> None:
    settings = Path("/", "home", "somebody", "server.properties")
    (remark,) = remarks(Path("/usr/bin/kbroker"), settings)
    assert remark == f"{settings} is not visible to the service, which has no access to home folders"
    program = Path("/", "home", "somebody", "bin", "kbroker")
    assert not [each for each in remarks(program, settings) if "home folders" in each]


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
    assert (
        done.stderr == "kbroker: SERVER.PROPERTIES must name a file, such as /etc/kbroker/server.properties\n"
    )
    assert not done.stdout


def test_settings_that_are_not_there_are_refused(shell: Shell, tmp_path: Path) -> None:
    missing = tmp_path / "server.properties"
    done = shell("systemd", missing, code=2)
    assert done.stderr == f"kbroker: SERVER.PROPERTIES: cannot read {missing}: No such file or directory\n"
    assert not done.stdout
    assert "File name too long" in shell("systemd", tmp_path / ("n" * 300), code=2).stderr
    missing.write_text("log.dirs=/var/lib/kbroker\n")
    assert f"serve {missing}\n" in shell("systemd", missing).text


def test_the_data_stays_where_the_settings_say(shell: Shell, tmp_path: Path) -> None:
    settings = tmp_path / "server.properties"
    settings.write_text("log.dirs=/disk1/kbroker, /disk two\nkbroker.audit.log.dir=/var/log/kbroker\n")
    done = shell("systemd", settings)
    paths = '/disk1/kbroker "/disk two" /var/log/kbroker'
    assert f" serve {settings}\n" in done.text
    assert f"\nReadWritePaths={paths}\n" in done.text
    assert f"\nRequiresMountsFor={paths}\n" in done.text
    assert "kbroker: /disk1/kbroker must belong to the service's user: useradd --system" in done.stderr
    assert "-m 0700 '/disk two'" in done.stderr


@pytest.mark.parametrize("line", ["", "log.dirs=/var/lib/kbroker\n", "log.dir = /var/lib/kbroker/a\n"])
def test_the_folder_of_the_service_needs_nothing_more(shell: Shell, tmp_path: Path, line: str) -> None:
    settings = tmp_path / "server.properties"
    settings.write_text(line)
    done = shell("systemd", settings)
    assert "ReadWritePaths" not in done.text
    assert ("--override log.dirs=/var/lib/kbroker" in done.text) == (not line)
    assert "must belong" not in done.stderr


def test_paths_from_nowhere_and_closed_settings_are_named(shell: Shell, tmp_path: Path) -> None:
    settings = tmp_path / "server.properties"
    settings.write_text("log.dirs=data\n")
    settings.chmod(0o600)
    reported = shell("systemd", settings).stderr
    assert "data is not an absolute path" in reported
    assert f"{settings} cannot be read by the service's user" in reported
    settings.write_bytes(b"\xff")
    assert "not UTF-8" in shell("systemd", settings, code=2).stderr


@pytest.mark.parametrize("parts", [("tmp", "kafka-logs"), ("home", "somebody", "data"), ("var", "tmp", "d")])
def test_data_in_a_hidden_folder_is_named(parts: tuple[str, ...]) -> None:
    folder = Path("/", *parts)
    (remark,) = foreign(Path("/usr/bin/kbroker"), [folder])
    assert remark.startswith(f"{folder} is not visible to the service: set another folder")


def test_data_in_the_home_of_the_program_can_be_used() -> None:
    home = Path("/", "home", "somebody")
    (remark,) = foreign(home / "bin" / "kbroker", [home / "data"])
    assert "must belong to the service's user" in remark


def test_key_stores_that_the_service_cannot_read_are_named(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kbroker.cli.systemd.HIDDEN", ())
    settings, store = tmp_path / "server.properties", tmp_path / "broker.pem"
    lines = f"ssl.keystore.location={store}\nlistener.name.lan.ssl.truststore.location=ca.crt\n"
    settings.write_text(lines)
    reported = shell("systemd", settings).stderr
    assert f"kbroker: {store} does not exist\n" in reported
    assert "kbroker: ca.crt is not an absolute path, and the service starts in /\n" in reported
    store.write_text("")
    store.chmod(0o600)
    assert (
        f"kbroker: {store} cannot be read by the service's user: useradd" in shell("systemd", settings).stderr
    )


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


def test_a_module_that_runs_stands_for_the_program_beside_its_interpreter(tmp_path: Path) -> None:
    program = Path(sys.executable).with_name("kbroker")
    assert program_of("/opt/kbroker/lib/python3.11/site-packages/kbroker/__main__.py") == program.absolute()
    assert program_of(str(tmp_path / "kbroker")) == tmp_path / "kbroker"
