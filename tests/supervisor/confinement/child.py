"""Runs a function in a forked child, whose rights the test may take away; returns its text."""

import os
from collections.abc import Callable


def in_child(function: Callable[[], object]) -> str:
    """What the function returned there, as text, or the name of its exception."""
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            text = str(function())
        except BaseException as error:
            text = type(error).__name__
        os.write(writable, text.encode())
        os._exit(0)
    os.close(writable)
    with os.fdopen(readable) as file:
        text = file.read()
    os.waitpid(child, 0)
    return text


def outcome(function: Callable[[], object]) -> str:
    """`done`, or the name of the refusal."""
    try:
        function()
    except OSError as error:
        return type(error).__name__
    return "done"
