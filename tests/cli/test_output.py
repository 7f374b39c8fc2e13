"""Tables line up and never wrap; errors of the client libraries become sentences."""

import errno
import json
import sys
import tempfile
from types import SimpleNamespace

import pytest
import typer
from confluent_kafka import KafkaError, KafkaException
from kafka.errors import GroupIdNotFoundError, KafkaConnectionError

from kbroker.cli.exit_codes import ExitCode
from kbroker.cli.failures import CommandFailed, broker_error, explain
from kbroker.cli.options import confirm
from kbroker.cli.output import json_text, print_json, print_table, say


def test_numbers_are_right_aligned_and_none_is_a_dash(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("NAME", "LAG", "OK"), [("a", 5, True), ("longer-name", None, False), ("b", 1234, True)])
    assert capsys.readouterr().out.splitlines() == [
        "NAME          LAG  OK",
        "a               5  yes",
        "longer-name     -  no",
        "b            1234  yes",
    ]


@pytest.mark.parametrize(
    ("term", "is_terminal", "bold"),
    [("xterm", True, True), ("", True, True), ("dumb", True, False), ("xterm", False, False)],
)
def test_a_header_is_bold_where_a_terminal_knows_how(
    term: str,
    is_terminal: bool,
    bold: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TERM", term)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)
    print_table(("NAME",), [("a",)])
    assert ("\x1b[1m" in capsys.readouterr().out) is bold


def test_names_in_other_scripts_line_up(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("GROUP", "LAG"), [("請求書", 5), ("ab", 12), ("e\u0301te\u0301", 7)])
    assert capsys.readouterr().out.splitlines() == [
        "GROUP   LAG",
        "請求書    5",
        "ab       12",
        "e\u0301te\u0301       7",
    ]


def test_a_wide_table_is_not_wrapped(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("A",), [("x" * 500,)])
    assert len(capsys.readouterr().out.splitlines()) == 2


@pytest.mark.parametrize(
    ("error", "message", "code"),
    [
        (KafkaException(KafkaError(36, "Topic 'x' exists.")), "TOPIC_ALREADY_EXISTS: Topic 'x' exists.", 1),
        (KafkaException(KafkaError(KafkaError._TRANSPORT, "down")), "down", 3),
        (KafkaException(KafkaError(KafkaError._TIMED_OUT, "late")), "late", 3),
        (KafkaException(KafkaError(KafkaError._INVALID_ARG, "bad")), "bad", 2),
        (GroupIdNotFoundError("Response(...)"), "GROUP_ID_NOT_FOUND: there is no such group", 1),
        (KafkaConnectionError("gone"), "gone", 3),
        (FileNotFoundError(2, "No such file or directory", "f"), "f: No such file or directory", 1),
        (OSError(28, "No space left on device"), "cannot write: No space left on device", 1),
        (ConnectionResetError(104, "Connection reset by peer"), "Connection reset by peer", 3),
    ],
)
def test_errors_of_the_libraries_are_explained(error: Exception, message: str, code: int) -> None:
    failure = explain(error)
    assert failure is not None
    assert message in failure.message
    assert failure.code == code


def test_a_bug_is_not_explained_away() -> None:
    assert explain(ZeroDivisionError()) is None
    assert explain(FileNotFoundError(errno.ENOENT, "No such file or directory")) is None
    assert explain(CommandFailed("x")) is not None


def test_codes_have_names_and_unknown_ones_their_number() -> None:
    for text in (None, "This server does not host this topic-partition.", "Unknown topic or partition"):
        known = (
            "t: UNKNOWN_TOPIC_OR_PARTITION: there is no such topic or partition; `kbroker topics list` shows"
        )
        assert broker_error(3, text, "t").message.startswith(known)
    assert broker_error(3, "id zero").message.startswith("UNKNOWN_TOPIC_OR_PARTITION: id zero; ")
    assert "authorizer.class.name" in broker_error(54, "No Authorizer is configured.").message
    assert broker_error(9999).message == "error 9999: not known here"
    assert broker_error(7).code is ExitCode.UNREACHABLE


def test_a_subject_that_a_client_chose_controls_no_terminal() -> None:
    """Ids of members are one: a client may name itself so."""
    message = broker_error(25, None, "m\x1b[2J\nok: removed\x9b").message
    assert message.startswith(r"m\x1b[2J\nok: removed\x9b: UNKNOWN_MEMBER_ID: ")


def test_the_reason_of_a_broker_controls_no_terminal() -> None:
    """It may hold a name that a client chose, and the broker may be anybody's."""
    message = broker_error(42, "no topic \x1b[2J\nok: removed\x9b").message
    assert message.startswith(r"INVALID_REQUEST: no topic \x1b[2J\nok: removed\x9b")
    assert broker_error(9999, "\x1b").message == r"error 9999: \x1b"


def test_a_remark_controls_no_terminal_and_keeps_its_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """Reasons of other servers are in it, too: of a bucket, a registry, MirrorMaker."""
    say("a\x1b[2J: é\u202e\n\tat b\x9b")
    assert capsys.readouterr().err == "a\\x1b[2J: é\\u202e\n\tat b\\x9b\n"


def test_a_question_controls_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr(typer, "confirm", lambda question, **_: asked.append(question))
    confirm("Delete group g\x1b[2J?", yes=False)
    assert asked == [r"Delete group g\x1b[2J?"]


def test_a_name_of_a_client_neither_adds_a_line_nor_controls_the_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_table(("GROUP", "MEMBERS"), [("a\x1b[2J\nb\x9b", ["é", "c\r"])])
    assert capsys.readouterr().out.splitlines()[1:] == [r"a\x1b[2J\nb\x9b  é,c\r"]


def test_a_name_in_json_controls_no_terminal_and_stays_the_same_name(
    capsys: pytest.CaptureFixture[str],
) -> None:
    names = ["a\x1b[2J\nb\x9b2J\x7f", "\u2028\u202e", "\ud800", "é日😀"]
    print_json(names)
    out = capsys.readouterr().out
    assert all(c.isprintable() or c == "\n" for c in out)
    assert r"\u009b2J\u007f" in out
    assert "é日😀" in out
    assert json.loads(out) == names


def test_json_of_a_line_has_no_line_break() -> None:
    assert json_text({"a\x85": [1, None]}) == r'{"a\u0085": [1, null]}'


def test_a_system_without_a_place_for_temporary_files_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a container whose root is read-only."""
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/proc/none"])
    with pytest.raises(FileNotFoundError) as raised:
        tempfile.gettempdir()
    failure = explain(raised.value)
    assert failure is not None
    assert failure.message.endswith("set TMPDIR to a folder that this user can write")
