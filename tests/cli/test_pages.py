"""`kbroker docs` lists and prints the pages of docs/, also of an installed wheel."""

from pathlib import Path

import pytest

from kbroker.cli import pages
from kbroker.cli.app import run
from kbroker.cli.exit_codes import ExitCode


def test_every_page_is_listed_with_its_title(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["docs"]) == ExitCode.OK
    listed = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()[1:])
    assert listed["backup"] == "Backup and restore"
    assert "lab/durable-acks" in listed
    assert not [name for name in listed if "template" in name]
    assert list(listed) == list(pages.pages())
    folders = ["/" in name for name in listed]
    assert folders == sorted(folders), "the pages for users first"


def test_a_page_is_printed_without_its_comments(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("backup", "backup.md", "docs/backup.md"):
        assert run(["docs", name]) == ExitCode.OK
        printed = capsys.readouterr().out
        assert printed.startswith("# Backup and restore\n")
        assert "<!--" not in printed


def test_an_unknown_page_is_refused_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    for name, message in (
        ("bakcup", "kbroker: no page 'bakcup'; did you mean backup? `kbroker docs` lists the pages\n"),
        ("../README", "kbroker: no page '../README'; `kbroker docs` lists the pages\n"),
    ):
        assert run(["docs", name]) == ExitCode.USAGE
        assert capsys.readouterr().err == message


def test_an_installation_without_pages_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pages").mkdir()
    monkeypatch.setattr(pages, "PLACES", (tmp_path / "pages", tmp_path / "docs"))
    assert run(["docs"]) == ExitCode.FAILED
    assert "install kbroker again" in capsys.readouterr().err
    (tmp_path / "pages" / "index.md").write_text("# Contents\n")
    assert list(pages.pages()) == ["index"]
