"""A limit for calls of the client libraries, which wait in places without one of their own: for the
end of a thread, for a name server, for a consumer that closes."""

from collections.abc import Callable
from concurrent.futures import Future, wait
from threading import Thread
from typing import TypeVar

from kbroker.cli.failures import Unreachable

Result = TypeVar("Result")
GRACE_S = 2.0
"""Time for a call to close its clients, after Ctrl-C."""


def within(limit_s: float, call: Callable[[], Result]) -> Result:
    """The result of a call, in a thread of its own. Raises Unreachable if it takes longer: the
    thread is left to itself."""
    done: Future[Result] = Future()

    def run() -> None:
        try:
            done.set_result(call())
        except BaseException as error:  # its caller gets it
            done.set_exception(error)

    try:
        Thread(target=run, name="call with a limit", daemon=True).start()
        return done.result(limit_s)
    except TimeoutError:
        if done.done():  # its own
            raise
        raise Unreachable(f"no answer within {limit_s:g} s") from None
    except KeyboardInterrupt:
        wait([done], GRACE_S)
        raise
