"""Plain arguments of `serve` are read without the option parser, and mean what the option parser
says they mean."""

from pathlib import Path

import pytest

from kbroker.cli.serve_arguments import parse
from tests.cli.conftest import Shell


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], (None, [])),
        (["server.properties"], (Path("server.properties"), [])),
        (["--override", "a=1", "f", "--override=b=2=3"], (Path("f"), ["a=1", "b=2=3"])),
    ],
)
def test_plain_arguments_agree_with_the_option_parser(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, words: list[str], expected: tuple[Path | None, list[str]]
) -> None:
    assert parse(words) == expected
    given: list[object] = []

    def serve(file: Path | None, overrides: list[str]) -> int:
        given.append((file, overrides))
        return 7

    monkeypatch.setattr("kbroker.cli.serve.serve", serve)
    shell("serve", *words, code=7)
    monkeypatch.setattr("kbroker.cli.app.parse", lambda _words: None)
    shell("serve", *words, code=7)
    assert given == [expected, expected]


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["--override"], ["a", "b"], ["--frob"], ["-x"]])
def test_the_rest_is_left_to_the_option_parser(words: list[str]) -> None:
    assert parse(words) is None


def test_mistakes_still_get_their_usage_error(shell: Shell) -> None:
    assert "--override" in shell("serve", "--override", code=2).stderr
    assert "No such option" in shell("serve", "--frob", code=2).stderr
