"""A short run from the command line to the page, cut and gone on with."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from bench import session
from bench.__main__ import main
from bench.congestion import CURRENT
from bench.report import PAGE
from bench.results import Results


def test_the_page_of_the_project_takes_no_short_turns(capsys: pytest.CaptureFixture[str]) -> None:
    before = PAGE.read_text()
    with pytest.raises(SystemExit, match="2"):
        main(["--quick", "--write"])
    assert "turns of full length only" in capsys.readouterr().err
    assert PAGE.read_text() == before


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None, reason="the load generator is C: needs cc")
def test_a_short_run_writes_a_page_and_continues_after_an_interruption(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(session, "SAVED", tmp_path / "results")
    page = tmp_path / "docs" / "page.md"
    options = ["--quick", "--target", "kbroker", "--scenario", "raw_50x1", "ask_metadata", "--write"]
    options += ["--page", str(page), "--folder", str(tmp_path), "--congestion", CURRENT.read_text().strip()]

    assert main(options) == 0
    (saved,) = (tmp_path / "results").glob("*.json")
    whole = Results.load(saved)
    assert [sample.scenario for sample in whole.samples] == ["raw_50x1", "ask_metadata"]
    assert all(sample.figures["limit"] > 0 for sample in whole.samples)
    text = page.read_text()
    assert "| receive the same frames, answer each |" in text
    assert "- One broker only: one record per request, raw sockets, 50 x 1 in flight; Metadata" in text
    assert str(tmp_path) not in text
    assert len(json.loads((tmp_path / "docs" / "page" / "samples.json").read_text())["samples"]) == 2
    assert (tmp_path / "docs" / "bars.svg").exists()

    replace(whole, samples=whole.samples[:1]).save(saved)
    capsys.readouterr()
    assert main([*options, "--resume"]) == 0
    assert [path.name for path in (tmp_path / "results").iterdir()] == [saved.name]
    again = Results.load(saved)
    assert again.samples[0] == whole.samples[0]
    assert [sample.scenario for sample in again.samples] == ["raw_50x1", "ask_metadata"]
    assert again.samples[1] != whole.samples[1]

    assert main([*options, "--resume", "--minutes", "0"]) == 0  # nothing is left to do
    assert Results.load(saved) == again
