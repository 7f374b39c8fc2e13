"""Runs a function in a forked child, whose rights the test may remove; returns its text."""

import os
from collections.abc import Callable

from tests.forked_child import ForkedChild


def in_child(function: Callable[[], object]) -> str:
    """What the function returned there, as text, or the name of its exception."""
    readable, writable = os.pipe()

    def report() -> None:
        try:
            text = str(function())
        except BaseException as error:
            text = type(error).__name__
        os.write(writable, text.encode())

    with ForkedChild(report) as child:
        os.close(writable)
        with os.fdopen(readable) as file:
            text = file.read()
        child.wait()
    return text


def outcome(function: Callable[[], object]) -> str:
    """`done`, or the name of the refusal."""
    try:
        function()
    except OSError as error:
        return type(error).__name__
    return "done"
