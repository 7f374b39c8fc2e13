"""A stream starts again after a slow worker, and after nothing else."""

from collections.abc import Iterable

import pytest

pytest.importorskip("pyspark", reason="`make venv-spark` brings it")

from pyspark.errors import StreamingQueryException

from spark_validation.live.stream import STARTS, Stream

pytestmark = pytest.mark.spark

SLOW = StreamingQueryException(
    "[STREAM_FAILED] terminated: Python worker failed to connect back. SQLSTATE: XXKST"
)
DAMAGED = StreamingQueryException("[STREAM_FAILED] terminated: a batch is damaged. SQLSTATE: XXKST")


class Query:
    """Spark's query that fails with `failure` once it is asked."""

    def __init__(self, failure: Exception | None) -> None:
        self.failure = failure
        self.processed = self.stopped = 0

    def exception(self) -> Exception | None:
        return self.failure

    def processAllAvailable(self) -> None:  # noqa: N802  Spark's name
        if self.failure is not None:
            raise self.failure
        self.processed += 1

    def stop(self) -> None:
        self.stopped += 1


class Queries:
    """Begins one query after another; the last failure repeats."""

    def __init__(self, failures: Iterable[Exception | None]) -> None:
        self.failures = list(failures)
        self.begun: list[Query] = []

    def __call__(self) -> Query:
        self.begun.append(Query(self.failures[min(len(self.begun), len(self.failures) - 1)]))
        return self.begun[-1]


def test_a_slow_worker_starts_the_stream_again_and_the_rows_are_processed_by_the_new_query() -> None:
    begin = Queries([SLOW, SLOW, None])
    stream = Stream("log", begin)
    stream.check()
    stream.process_available()
    assert [query.processed for query in begin.begun] == [0, 0, 1]
    stream.stop()
    assert [query.stopped for query in begin.begun] == [0, 0, 1]


@pytest.mark.parametrize("method", ["check", "process_available"])
def test_another_failure_ends_the_job(method: str) -> None:
    begin = Queries([DAMAGED])
    stream = Stream("log", begin)
    with pytest.raises(StreamingQueryException, match="damaged"):
        getattr(stream, method)()
    assert len(begin.begun) == 1


def test_a_worker_that_is_never_there_in_time_ends_the_job() -> None:
    begin = Queries([SLOW])
    stream = Stream("log", begin)
    with pytest.raises(StreamingQueryException, match="connect back"):
        stream.process_available()
    assert len(begin.begun) == STARTS
