"""What a release needs before it is tagged."""

import pytest

from docs.release import problems

GOOD = "# Changelog\n\n## 1.2.0 - 2026-11-22\n\n### Added\n\n- A thing.\n\n## 1.1.0 - 2026-01-01\n"


def test_a_described_release_may_be_tagged() -> None:
    assert problems(GOOD, "1.2.0") == []


@pytest.mark.parametrize(
    ("changelog", "reason"),
    [
        ("# Changelog\n", "no release"),
        (GOOD.replace("1.2.0", "1.3.0"), "begins with 1.3.0"),
        (GOOD.replace("## 1.2.0 - 2026-11-22", "## 1.2.0"), "has no date"),
        (GOOD.replace("### Added\n\n- A thing.\n", "- A thing.\n"), "has none of"),
        (GOOD.replace("## 1.2.0 - 2026-11-22", "## Unreleased"), "begins with Unreleased"),
    ],
)
def test_a_release_that_is_not_described_is_refused(changelog: str, reason: str) -> None:
    (found,) = problems(changelog, "1.2.0")
    assert reason in found
