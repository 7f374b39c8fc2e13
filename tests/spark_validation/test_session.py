"""The settings of a session that was there before the judge: one of spark-submit."""

import pytest

pytest.importorskip("pyspark", reason="`make venv-spark` brings it")

from spark_validation.session import SMALL, make_small, spark_session

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]

STATIC = {"spark.sql.codegen.cache.maxEntries"}  # Spark refuses to change it while Java runs


def test_a_submitted_session_becomes_small_as_far_as_its_user_left_that_open() -> None:
    given = {"spark.sql.shuffle.partitions": "32", "spark.sql.adaptive.enabled": "true"}
    spark = spark_session(settings=given | {"spark.driver.memory": "512m"})
    try:
        make_small(spark)
        expected = {key: value for key, value in SMALL.items() if key.startswith("spark.sql.")} | given
        assert {key: spark.conf.get(key) for key in expected if key not in STATIC} == {
            key: value for key, value in expected.items() if key not in STATIC
        }
    finally:
        spark.stop()
