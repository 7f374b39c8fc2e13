"""Log lines name their process, are JSON when that is wanted, and wrong settings of the log are
said, not raised."""

import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from kbroker.supervisor.log_lines import _cut, log_to_stderr


@pytest.fixture(autouse=True)
def root_logger() -> Iterator[None]:
    """pytest's own handlers come back."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def test_a_line_of_text_has_time_level_and_process(capsys: pytest.CaptureFixture[str]) -> None:
    assert log_to_stderr("info") == []
    logging.getLogger("kbroker.io").info("opened %d logs", 3)
    stamp, level, process, text = capsys.readouterr().err.strip().split(" ", 3)
    assert stamp.endswith("Z")
    assert (level, process, text) == ("INFO", f"acceptor[{os.getpid()}]", "opened 3 logs")


def test_json_lines_hold_the_same_and_a_traceback_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert log_to_stderr("INFO", "json") == []
    try:
        raise ValueError('two\nlines and a "quote"')
    except ValueError:
        logging.getLogger("kbroker.io").exception("failed")
    (line,) = capsys.readouterr().err.splitlines()
    found = json.loads(line)
    assert found["message"] == "failed"
    assert found["level"] == "ERROR"
    assert (found["process"], found["pid"], found["logger"]) == ("acceptor", os.getpid(), "kbroker.io")
    assert 'ValueError: two\nlines and a "quote"' in found["exception"]


@pytest.mark.parametrize("written_as", ["text", "json"])
def test_a_line_has_a_largest_length(capsys: pytest.CaptureFixture[str], written_as: str) -> None:
    """Its beginning and its end, which has the reason, stay."""
    log_to_stderr("INFO", written_as)
    try:
        raise ValueError("x" * 3_000_000)
    except ValueError:
        logging.getLogger("kbroker.io").exception("client %s: %s", "n" * 3_000_000, "refused")
    written = capsys.readouterr().err
    assert len(written) < 200_000
    assert "client nnn" in written
    assert "2991824 characters" in written
    assert "nnn: refused" in written


def test_fields_are_pairs_in_a_line_of_text_and_members_of_a_json_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    fields = {"client_id": 'a "b"\nINFO forged', "total_ms": 1.5, "unfinished": True}
    log_to_stderr("INFO")
    logging.getLogger("kbroker.net").warning("slow request", extra={"fields": fields})
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith('slow request client_id="a \\"b\\"\\nINFO forged" total_ms=1.5 unfinished=true')
    log_to_stderr("INFO", "json")
    logging.getLogger("kbroker.net").warning("slow request", extra={"fields": fields})
    found = json.loads(capsys.readouterr().err)
    assert found["message"] == "slow request"
    assert fields.items() <= found.items()


def test_the_level_leaves_out_what_is_below(capsys: pytest.CaptureFixture[str]) -> None:
    log_to_stderr("WARNING")
    logging.getLogger("kbroker.io").info("quiet")
    assert capsys.readouterr().err == ""


def test_wrong_settings_of_the_log_end_the_start_with_one_line_each() -> None:
    environment = {**os.environ, "KBROKER_LOG_LEVEL": "loud", "KBROKER_LOG_FORMAT": "xml"}
    done = subprocess.run(
        [sys.executable, "-m", "kbroker", "serve"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    level, written_as = done.stderr.splitlines()
    assert level.endswith("KBROKER_LOG_LEVEL=loud is not one of DEBUG, INFO, WARNING, ERROR")
    assert written_as.endswith("KBROKER_LOG_FORMAT=xml is not one of text, json")


HOSTILE = "g\n2026-01-31T12:00:00.123Z ERROR control[1] forged\x1b[2J\x07\x9b2J\x7f\r\u2028é"


def test_a_name_neither_forges_a_line_nor_controls_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Group ids, member ids and the reasons of clients are in many lines."""
    log_to_stderr("INFO")
    logging.getLogger("kbroker.control").info("group %s is empty", HOSTILE)
    (line,) = capsys.readouterr().err.splitlines()
    shown = r"g\n2026-01-31T12:00:00.123Z ERROR control[1] forged\x1b[2J\x07\x9b2J\x7f\r\u2028é"
    assert line.endswith(f"] group {shown} is empty")
    log_to_stderr("INFO", "json")
    logging.getLogger("kbroker.control").info("group %s is empty", HOSTILE)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.replace("é", "").isprintable()
    assert json.loads(line)["message"] == f"group {HOSTILE} is empty"


def test_an_error_does_not_forge_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    log_to_stderr("INFO")
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        logging.getLogger("kbroker.control").exception("failed")
    first, *others = capsys.readouterr().err.split("\n")[:-1]
    assert first.endswith("] failed")
    assert others[0] == "Traceback (most recent call last):"
    assert all(line.startswith("  ") and line.isprintable() for line in others[1:])


def test_a_text_is_cut_in_its_middle_beyond_the_limit() -> None:
    assert _cut("abcdef", 6) == "abcdef"
    assert _cut("abcdefg", 6) == "abc[... 1 characters ...]efg"
    assert _cut("a" * 10 + "z" * 10, 4) == "aa[... 16 characters ...]zz"


def test_wrong_settings_of_the_log_are_replaced_by_the_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    assert log_to_stderr("loud", "xml") == [
        "KBROKER_LOG_LEVEL=loud is not one of DEBUG, INFO, WARNING, ERROR",
        "KBROKER_LOG_FORMAT=xml is not one of text, json",
    ]
    assert logging.getLogger().level == logging.INFO
    assert log_to_stderr("Debug", "JSON") == []
    assert logging.getLogger().level == logging.DEBUG
    capsys.readouterr()
    logging.getLogger("kbroker.io").debug("text")
    assert json.loads(capsys.readouterr().err)["level"] == "DEBUG"
