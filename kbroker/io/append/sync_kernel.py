"""Main loop of a group commit thread: take a descriptor from a pipe, sync it, write the result into
another pipe.

Compiled, so that the thread never takes the interpreter lock: eight threads that waited on a
condition cost fifty futex calls per sync, and meanwhile the drain waited for the lock.

Both pipes carry SyncJobs, each written and read as a whole: token, descriptor; and token, errno,
nanoseconds.
"""

from kbroker.io.append.rows import SyncJob
from kbroker.kernels.jit import external, kernel
from kbroker.kernels.libc import CLOCK_MONOTONIC, EIO, clock_gettime, errno
from kbroker.kernels.memory import load_i64
from kbroker.kernels.pipe import give_record, take_record
from kbroker.kernels.rows import get, put

fdatasync = external("fdatasync", "int32", "int32")


@kernel("int64(int64, int64, int64)")
def serve_syncs(jobs: int, results: int, scratch: int) -> int:
    """Serve until END; returns the number of syncs. jobs, results: ends of pipes that block;
    scratch: 64 bytes."""
    served = 0
    while take_record(jobs, scratch, SyncJob.STRIDE):
        if get(scratch, SyncJob.FD) == SyncJob.END:
            break
        clock_gettime(CLOCK_MONOTONIC, scratch + 32)
        error = 0
        if fdatasync(get(scratch, SyncJob.FD)) != 0:
            error = errno()
            error = error if error != 0 else EIO
        clock_gettime(CLOCK_MONOTONIC, scratch + 48)
        seconds = load_i64(scratch + 48) - load_i64(scratch + 32)
        put(scratch, SyncJob.ERROR, error)
        put(
            scratch,
            SyncJob.NANOSECONDS,
            seconds * 1_000_000_000 + load_i64(scratch + 56) - load_i64(scratch + 40),
        )
        if not give_record(results, scratch, SyncJob.STRIDE):
            break
        served += 1
    return served
