"""Both ways to ask the segment source for rows give the same, of every kind, and name what they do
not know."""

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="`make venv-spark` brings it")

from pyspark.sql import DataFrame, SparkSession

from spark_validation.segments import schemas
from spark_validation.segments.frame import segment_frame
from spark_validation.segments.source import FORMAT
from spark_validation.session import spark_session
from tests.spark_validation.world import RUN, clean
from tests.spark_validation.world_files import write_log

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    session = spark_session(small=True)
    yield session
    session.stop()


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    for number, mode in enumerate(("idempotent", "transactional"), 1):
        topic = clean(mode, number, mode)
        topic.spoiled_index = True
        write_log(folder, topic, topic.log)
    return folder


def rows(frame: DataFrame) -> list[tuple[object, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


@pytest.mark.parametrize("kind", schemas.ROWS)
def test_the_frame_has_the_rows_and_types_of_the_format(spark: SparkSession, data: Path, kind: str) -> None:
    options = {"path": str(data), "rows": kind, "run": str(RUN), "control": "true"}
    by_format = spark.read.format(FORMAT).options(**options).load()
    frame = segment_frame(spark, options)
    assert frame.schema == by_format.schema
    assert rows(frame) == rows(by_format)
    assert frame.count() > 0


def test_columns_and_topics_are_chosen(spark: SparkSession, data: Path) -> None:
    options = {"path": str(data), "topics": "transactional", "isolation": "read_committed"}
    frame = segment_frame(spark, options, ("offset", "topic"))
    assert frame.columns == ["offset", "topic"]
    seen = rows(frame)
    assert {topic for _, topic in seen} == {"transactional"}
    everything = segment_frame(spark, options | {"isolation": "read_uncommitted"}, ("offset", "topic"))
    assert 0 < len(seen) < everything.count()


def test_no_log_gives_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    frame = segment_frame(spark, {"path": str(tmp_path)})
    assert frame.columns == list(schemas.CONNECTOR_COLUMNS)
    assert frame.count() == 0


@pytest.mark.parametrize(
    ("options", "names", "error"),
    [
        ({"path": "x", "rows": "what"}, (), "no rows 'what'"),
        ({"path": "x"}, ("offset", "colour"), "no columns .*colour"),
        ({}, (), "needs the option path"),
    ],
)
def test_unknown_options_are_refused(
    spark: SparkSession, options: dict[str, str], names: tuple[str, ...], error: str
) -> None:
    with pytest.raises(ValueError, match=error):
        segment_frame(spark, options, names)
