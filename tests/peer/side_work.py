"""Work in a thread beside a test, which ends with it, and whose failure is the test's."""

import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self

LIMIT_S = 120.0


class Unfinished(AssertionError):
    """Work that did not end in time; the text says where it is."""


class SideWork:
    """One call in a thread. A thread that never ends keeps neither the test nor its process."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._call()
        except BaseException as failure:  # raised in the test's thread
            self._failure = failure

    def end(self, limit_s: float = LIMIT_S) -> None:
        """Waits for its end. Raises what the call has raised, or Unfinished."""
        self._thread.join(limit_s)
        if self._thread.is_alive():
            raise Unfinished(f"after {limit_s:.0f} s:\n{self._stack()}")
        if self._failure is not None:
            raise self._failure

    def _stack(self) -> str:
        frame = sys._current_frames().get(self._thread.ident or 0)
        return "".join(traceback.format_stack(frame)) if frame is not None else "it has just ended"


class Beside:
    """An object whose `_work` runs in a thread until the end of its `with`, when `_stop` is set."""

    def __init__(self) -> None:
        self._stop = threading.Event()

    def __enter__(self) -> Self:
        self._side = SideWork(self._work)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._side.end()

    def _work(self) -> None:
        raise NotImplementedError


@contextmanager
def beside(call: Callable[[threading.Event], object]) -> Iterator[None]:
    """Work until the end of the `with`, when the event of its argument is set."""
    done = threading.Event()
    work = SideWork(lambda: call(done))
    try:
        yield
    finally:
        done.set()
        work.end()


def in_time(call: Callable[[], object], limit_s: float = LIMIT_S) -> None:
    """A call that has no limit, such as the close of a client. Raises Unfinished."""
    SideWork(call).end(limit_s)
