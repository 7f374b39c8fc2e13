"""Plain arguments of `serve` are read without the option parser, and mean what the option parser
says they mean."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kbroker.cli.app import serve_arguments
from tests.cli.conftest import Shell


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], (None, [], False)),
        (["server.properties"], (Path("server.properties"), [], False)),
        (["--override", "a=1", "f", "--override=b=2=3"], (Path("f"), ["a=1", "b=2=3"], False)),
        (["--environment", "f"], (Path("f"), [], True)),
    ],
)
def test_plain_arguments_agree_with_the_option_parser(
    shell: Shell,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    expected: tuple[Path | None, list[str], bool],
) -> None:
    assert serve_arguments(words) == expected
    given: list[object] = []

    def serve(file: Path | None, overrides: list[str], environment: bool) -> int:
        given.append((file, overrides, environment))
        return 7

    monkeypatch.setattr("kbroker.cli.serve.serve", serve)
    shell("serve", *words, code=7)
    monkeypatch.setattr("kbroker.cli.app.serve_arguments", lambda _words: None)
    shell("serve", *words, code=7)
    assert given == [expected, expected]


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["--override"], ["a", "b"], ["--frob"], ["-x"]])
def test_the_rest_is_left_to_the_option_parser(words: list[str]) -> None:
    assert serve_arguments(words) is None


def test_mistakes_still_get_their_usage_error(shell: Shell) -> None:
    assert "--override" in shell("serve", "--override", code=2).stderr
    assert "No such option" in shell("serve", "--frob", code=2).stderr


def test_serve_takes_settings_from_variables_on_request() -> None:
    wrong = {**os.environ, "KAFKA_NUM_PARTITIONS": "three"}
    command = [sys.executable, "-m", "kbroker", "serve", "--environment"]
    done = subprocess.run(command, env=wrong, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "num.partitions" in done.stderr


@pytest.mark.parametrize(
    "setting", ["kbroker.arena.bytes=9223372036854775807", "kbroker.max.partitions=2147483647"]
)
def test_settings_that_need_more_memory_than_there_is_are_refused(tmp_path: Path, setting: str) -> None:
    fixed = ["listeners=PLAINTEXT://127.0.0.1:0", f"log.dirs={tmp_path}", "kbroker.http.listen=", setting]
    overrides = [word for each in fixed for word in ("--override", each)]
    command = [sys.executable, "-m", "kbroker", "serve", *overrides]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert "shared memory cannot be allocated" in done.stderr
    assert setting in done.stderr
    assert "Traceback" not in done.stderr
