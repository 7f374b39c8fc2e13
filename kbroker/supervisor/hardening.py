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
"""Umask of the broker: new files get 0600, new folders 0700. Existing ones keep their mode."""
HIDDEN = "[hidden]"


def harden(overrides: Iterable[str]) -> None:
    """Set the umask, forbid new privileges, and hide passwords of the command line."""
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
