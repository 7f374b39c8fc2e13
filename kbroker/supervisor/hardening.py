"""Restrictions that the broker puts on itself before it opens or creates anything; its children
inherit them."""

import ctypes
import os
import sys
from collections.abc import Iterable

import setproctitle

from kbroker.config.broker import is_sensitive

PR_SET_NO_NEW_PRIVS = 38
OURS_ALONE = 0o077
"""Mask of the files and folders that the broker makes: 0600 and 0700. What is there keeps its
mode."""
HIDDEN = "[hidden]"


def harden(overrides: Iterable[str]) -> None:
    """Files for its user alone, no privileges that it did not start with, no password in its
    command line."""
    os.umask(OURS_ALONE)
    ctypes.CDLL(None, use_errno=True).prctl(
        PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0
    )  # old kernels have none: no error
    shown = {override: without_secret(override) for override in overrides}
    if any(override != text for override, text in shown.items()):
        setproctitle.setproctitle(" ".join(shown.get(word, word) for word in [sys.executable, *sys.argv]))


def without_secret(override: str) -> str:
    """`key=value` of the command line as all users of the host may see it."""
    key, equals, _ = override.partition("=")
    return f"{key}={HIDDEN}" if equals and is_sensitive(key.strip()) else override
