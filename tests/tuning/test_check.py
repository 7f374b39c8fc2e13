from dataclasses import replace
from pathlib import Path

from tests.tuning.fakes import MOUNT, on, situation
from tuning.check import check, exit_code
from tuning.finding import Severity
from tuning.render import findings_text


def test_a_fitting_host_has_nothing_to_gain(tmp_path: Path) -> None:
    findings = check(situation(tmp_path))
    assert exit_code(findings) == 0
    assert "knows no improvement" in findings_text(findings, everything=False)


def test_a_serious_finding_comes_first_and_makes_the_exit_code(tmp_path: Path) -> None:
    findings = check(on(situation(tmp_path), mounts=(replace(MOUNT, kind="tmpfs"),)))
    assert exit_code(findings) == 1
    assert findings[0].severity is Severity.SERIOUS
    text = findings_text(findings, everything=False)
    assert text.startswith("serious  /data: file system\n         now tmpfs\n")
    assert "1 serious" in text


def test_all_shows_what_is_well(tmp_path: Path) -> None:
    findings = check(situation(tmp_path))
    assert "vm.max_map_count" not in findings_text(findings, everything=False)
    assert "vm.max_map_count" in findings_text(findings, everything=True)
