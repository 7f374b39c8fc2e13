"""Children that tests fork: none continues the tests of its parent, and none outlives its own
test, whose output it would hold open."""

import os
import select
import signal
import traceback
from collections.abc import Callable
from typing import Self


def exit_code(pid: int, within_s: float = 120.0) -> int:
    """Of a child, which is killed when it takes longer; that of a signal is negative."""
    watched = os.pidfd_open(pid)
    try:
        end = select.poll()
        end.register(watched, select.POLLIN)
        end.poll(within_s * 1000)
    finally:
        os.close(watched)
        os.kill(pid, signal.SIGKILL)  # nothing to a child that has ended
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return code


class ForkedChild:
    """Runs a function: exit code 0 when it returns, 1 when it raises. To be used with `with`, which
    kills a child that has not ended."""

    def __init__(self, function: Callable[[], object]) -> None:
        self._code: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            code = 1
            try:
                function()
                code = 0
            except BaseException:
                os.write(2, traceback.format_exc().encode())
            finally:
                os._exit(code)

    def wait(self, within_s: float = 120.0) -> int:
        """As `exit_code`."""
        if self._code is None:
            self._code = exit_code(self.pid, within_s)
        return self._code

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.wait(0)
