"""A bar if stderr is a terminal, else nothing."""

import io
import sys

import pytest

from kbroker.cli.progress import progress


class Terminal(io.StringIO):
    """A stream that is a terminal to its writer."""

    def isatty(self) -> bool:
        return True


def test_a_name_in_the_description_is_no_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the topic of `kbroker produce '[/x]'`."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    with progress("produce [/x]", 2) as advance:
        advance(1)
    assert "produce [/x]" in terminal.getvalue()


def test_a_pipe_gets_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", pipe := io.StringIO())
    with progress("produce orders", 2) as advance:
        advance(2)
    assert pipe.getvalue() == ""
