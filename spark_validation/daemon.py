"""The process that Spark forks its Python workers from (`spark.python.daemon.module`): pyspark's
own daemon, made cheap per task.

Three things cost a stock worker more than it takes to decode a million records, and none of them is
needed:

- numba and the compiled loops, imported after the fork by each worker for itself: 1.7 s of CPU;
- at the start of every task all importers forget what they know, and those of pyspark.zip, one a
  package, read its directory again: 0.1 s. Where pyspark is installed, too, the archive leaves the
  path;
- at the end of every task a garbage collection over all that was imported: 0.03 s. What is frozen
  is left alone.

The stock daemon ignores the ends of its workers. Then Linux forgets what they cost, and so would
`cost`.
"""

import gc
import os
import signal
import sys
from contextlib import suppress
from importlib.machinery import PathFinder
from types import SimpleNamespace
from typing import Any

installed = [path for path in sys.path if not path.endswith(".zip")]
if PathFinder.find_spec("pyspark", installed):
    sys.path[:] = installed
    sys.path_importer_cache.clear()

from pyspark import daemon  # noqa: E402

from spark_validation.segments import decode, index_check, landing  # noqa: E402

IMPORTED = (decode, index_check, landing)


def reap(*_: object) -> None:
    """Takes over the CPU of workers that have ended."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def set_handler(number: int, handler: Any) -> Any:
    """`signal.signal`, but ended workers are waited for."""
    ends = number == signal.SIGCHLD and handler is signal.SIG_IGN
    return signal.signal(number, reap if ends else handler)


daemon.signal = SimpleNamespace(**vars(signal) | {"signal": set_handler})

if __name__ == "__main__":
    gc.collect()
    gc.freeze()
    daemon.manager()
