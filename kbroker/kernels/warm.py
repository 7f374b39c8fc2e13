"""Compile every kernel to the on-disk cache and to the broker's image:
``python -m kbroker.kernels.warm``.

One process per processor compiles, the longest kernels first. A broker that finds no image runs it,
and ``make test`` calls it so that no broker has to. Later runs reuse the cache.
"""

import fcntl
import gc
import importlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kbroker.kernels import cache, image
from kbroker.kernels.linking.object_image import CompiledKernel
from kbroker.parent_death import signal_on_parent_death

PACKAGE = Path(cache.__file__).parent.parent
LINE_INTERVAL_S = 4.0
REDRAW_INTERVAL_S = 0.25
"""Time between two bars on a terminal, where the bar is redrawn in place."""
BAR = 30
OPTIMISING = 0.15
FUNCTION = 255
STOPPED = 128 + signal.SIGTERM
ESTIMATE_FROM = 0.1
"""The time left is shown from this share on, which is reached after a few seconds."""


def modules() -> list[str]:
    """Dotted names of all modules that hold kernels."""
    found = []
    for source in cache.sources():
        text = source.read_text()
        if "\n@kernel(" in text and source.name != "jit.py":
            found.append(".".join(("kbroker", *source.relative_to(PACKAGE).with_suffix("").parts)))
    return found


def compiled(kernel: Any) -> CompiledKernel | None:
    """A kernel's code from numba's cache, for the image; None if it is not there."""
    codegen = kernel.targetctx.codegen()
    found = kernel._cache._cache_file.load(kernel._cache._index_key(kernel.declared, codegen))
    if found is None:  # numba offers no other way to its object code
        return None
    (_, kind, (code, _)), described, environment = found[:3]
    assert kind == "object"
    assert not environment.consts, kernel
    source = kernel.py_func
    return CompiledKernel(
        source.__module__,
        source.__qualname__,
        code,
        described.llvm_cpython_wrapper_name,
        kernel.targetctx.get_env_name(described),
    )


def functions_of(kernel: Any) -> set[Any]:
    """A kernel's function and all functions that it calls."""
    seen: set[Any] = set()
    left = [kernel.py_func]
    while left:
        function = left.pop()
        if function in seen:
            continue
        seen.add(function)
        called = (function.__globals__.get(name) for name in function.__code__.co_names)
        left += [one.py_func for one in called if hasattr(one, "py_func")]
    return seen


def length(functions: Iterable[Any]) -> int:
    """An estimate of the time to compile them: the length of their byte code."""
    return sum(len(function.__code__.co_code) for function in functions)


class Progress:
    """Progress, counted in functions: compiling one counts 1, optimising it as part of a kernel
    counts OPTIMISING."""

    def __init__(self, kernels: list[Any]) -> None:
        of_each = [functions_of(one) for one in kernels]
        parts = set[Any]().union(*of_each) - {one.py_func for one in kernels}
        self._kernels = [1 + OPTIMISING * len(own) for own in of_each]
        self._all = len(parts) + sum(self._kernels)
        self._done = 0.0

    def take(self, messages: bytes) -> None:
        """Messages of workers: a function was compiled (FUNCTION), or a kernel is done (its
        number)."""
        for message in messages:
            self._done += 1 if message == FUNCTION else self._kernels[message]

    @property
    def share(self) -> float:
        """The completed share, 0 to 1; 1 only when everything is done."""
        return 1.0 if self._done > self._all - 1e-6 else min(0.99, self._done / self._all)

    def left_s(self, elapsed_s: float) -> float:
        """The approximate time left."""
        return elapsed_s * max(0.0, self._all - self._done) / max(1.0, self._done)


def declare() -> list[Any]:
    """Every kernel, not yet compiled, the longest first."""
    from kbroker.kernels import jit

    jit.declare_only = True
    for name in modules():
        importlib.import_module(name)
    return sorted(jit.DECLARED, key=lambda one: length(functions_of(one)), reverse=True)


def collect_garbage_rarely() -> None:
    """A compiler keeps nearly all of its objects; collections took a sixth of its time."""
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)


def compile_all(kernels: list[Any]) -> int:
    """Compile in as many processes as there are processors. Returns 0 if all of them succeeded,
    STOPPED if a signal of a stop ended one, else 1; what the others compiled is kept."""
    tasks, task = os.pipe()
    ready, done = os.pipe()
    collect_garbage_rarely()
    number_of_workers = min(len(os.sched_getaffinity(0)), len(kernels))
    workers = []
    with _exchange_folder() as folder:
        for number in range(number_of_workers):
            workers.append(os.fork())
            if workers[-1] == 0:
                os.close(task)
                os.close(ready)
                exchange = (folder, number) if number_of_workers > 1 else None
                _work(kernels, tasks, done, exchange)
        os.close(tasks)
        os.close(done)
        os.write(
            task, bytes(range(len(kernels)))
        )  # one byte per kernel: the process that reads it compiles the kernel
        os.close(task)
        _report(Progress(kernels), ready)
        return outcome([os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1]) for worker in workers])


def outcome(codes: Iterable[int]) -> int:
    """The exit code of the compiler, from those of its processes. It reports those that died."""
    failed = {code for code in codes if code}
    if -signal.SIGTERM in failed:
        return STOPPED
    for code in sorted(failed):
        if code < 0:
            name = signal.Signals(-code).name
            reason = ", as the system does when memory is short" if code == -signal.SIGKILL else ""
            sys.stderr.write(f"kernels: {name} ended a process that compiled{reason}\n")
    return 1 if failed else 0


@contextmanager
def _exchange_folder() -> Iterator[Path]:
    """A folder in the cache, which no other user can write to; a killed process may have left
    one."""
    folder = cache.cache_folder() / "exchange"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _work(kernels: list[Any], tasks: int, done: int, exchange: tuple[Path, int] | None) -> None:
    """Compile one kernel after another. exchange: its folder, and the number of this process."""
    code = 1
    signal_on_parent_death(signal.SIGKILL)
    try:
        from kbroker.kernels.compiler import Part
        from kbroker.kernels.exchange import Exchange

        Part.exchange = Exchange(*exchange) if exchange else None
        Part.compiled = staticmethod(lambda: os.write(done, bytes([FUNCTION])))
        while taken := os.read(tasks, 1):
            kernels[taken[0]].make()
            os.write(done, taken)
        code = 0
    except BrokenPipeError:
        pass  # the parent is gone
    except OSError as error:
        sys.stderr.write(f"kernels: {error}\n")  # such as a full disk
    except Exception:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(code)


def _report(progress: Progress, ready: int) -> None:
    """Print the progress and the time left at intervals, until all compiling processes have
    ended."""
    start = printed = time.monotonic()
    terminal = sys.stderr.isatty()
    while messages := os.read(ready, 4096):
        progress.take(messages)
        now = time.monotonic()
        if now - printed >= (REDRAW_INTERVAL_S if terminal else LINE_INTERVAL_S):
            sys.stderr.write(progress_line(progress, now - start, terminal))
            sys.stderr.flush()
            printed = now
    if terminal:
        sys.stderr.write("\r\x1b[K")


def progress_line(progress: Progress, elapsed_s: float, terminal: bool) -> str:
    """A line with the progress; on a terminal a bar that replaces the previous one."""
    line = f"{progress.share:4.0%}"
    if progress.share >= ESTIMATE_FROM:
        line += f", about {max(1, round(progress.left_s(elapsed_s)))} s left"
    if not terminal:
        return f"kernels: {line.strip()}\n"
    full = round(BAR * progress.share)
    return f"\r\x1b[Kkernels: [{'#' * full}{' ' * (BAR - full)}]{line}"


def write_image(target: Path) -> int:
    """Write an image for a wheel, in one process, so that the result is reproducible.
    NUMBA_CPU_NAME names the processor."""
    kernels = declare()
    collect_garbage_rarely()
    for number, kernel in enumerate(kernels, 1):
        kernel.make()
        sys.stderr.write(f"{target.name}: {number} of {len(kernels)}\n" if number % 25 == 0 else "")
    found = [one for one in map(compiled, kernels) if one is not None]
    if len(found) != len(kernels):
        return 1
    target.write_bytes(image.made(sorted(found, key=lambda one: (one.module, one.name))))
    return 0


def main(arguments: Sequence[str] = ()) -> int:
    """Compile the kernels that are not cached, and write the image; a process that starts meanwhile
    waits for it.

    arguments: `--image FILE` writes an image for a wheel instead."""
    if arguments:
        return write_image(Path(arguments[1]))
    start = time.monotonic()
    with open(cache.cache_folder() / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if image.use():
            sys.stderr.write(f"kernels are ready: {image.path()}\n")
            return 0
        kernels = declare()
        missing = [one for one in kernels if compiled(one) is None]
        sys.stderr.write(f"kernels: compiling {len(missing)} of {len(kernels)}, once ...\n")
        if missing and (code := compile_all(missing)):
            return code
        try:
            written = image.write([one for one in map(compiled, kernels) if one is not None])
        except OSError as error:
            sys.stderr.write(f"kernels: cannot write {image.path()}: {error.strerror or error}\n")
            return 1
    sys.stderr.write(f"kernels: ready in {time.monotonic() - start:.1f} s: {written}\n")
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends it and its processes without tracebacks
    sys.exit(main(sys.argv[1:]))
