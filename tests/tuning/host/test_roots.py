"""Small files of procfs and sysfs."""

from pathlib import Path

import pytest

from tuning.host.roots import Roots, as_number, chosen, number, text


def test_a_sysctl_is_found_by_its_dotted_name(tmp_path: Path) -> None:
    file = tmp_path / "sys" / "net" / "ipv4" / "tcp_rmem"
    file.parent.mkdir(parents=True)
    file.write_text("4096\t131072 \n 6291456\n")
    roots = Roots(proc=tmp_path)
    assert roots.sysctl("net.ipv4.tcp_rmem") == "4096 131072 6291456"
    assert roots.sysctl("net.ipv4.none") is None


def test_a_file_that_is_no_text_is_as_if_missing(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    assert text(tmp_path / "binary") is None
    assert text(tmp_path) is None


def test_a_number_is_the_whole_file(tmp_path: Path) -> None:
    file = tmp_path / "file"
    found = {}
    for content in ("5\n", "-1", "5 6", "", "max"):
        file.write_text(content)
        found[content] = number(file)
    assert found == {"5\n": 5, "-1": -1, "5 6": None, "": None, "max": None}
    assert number(tmp_path / "none") is None
    assert as_number(None) is None


@pytest.mark.parametrize(
    ("value", "found"),
    [("always [madvise] never", "madvise"), ("[none]", "none"), ("none", "none"), (None, None)],
)
def test_the_choice_is_in_brackets(value: str | None, found: str | None) -> None:
    assert chosen(value) == found
