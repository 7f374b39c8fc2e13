"""The Spark session of the judge: local unless spark-submit or SPARK_MASTER says otherwise."""

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from spark_validation.java import java_home
from spark_validation.segments.source import SegmentSource

ROOT = Path(__file__).resolve().parents[1]
_USERS_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
CACHE = (
    ROOT / ".cache" / "spark" if (ROOT / "pyproject.toml").exists() else _USERS_CACHE / "kbroker" / "spark"
)
"""Spark's files. The folder of an installation may belong to another user."""
CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0"

# What keeps 100 million records within a few GiB and cheap on few cores.
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "64m",
    "spark.sql.parquet.enableVectorizedReader": "true",
    "spark.sql.files.maxPartitionBytes": "64m",
    "spark.python.worker.reuse": "true",
    "spark.python.daemon.module": "spark_validation.daemon",
    # a worker starts in a folder of the user, whose loadtest.py it would import instead of ours
    "spark.executorEnv.PYTHONSAFEPATH": "1",
    # else every operator of a column asks Java six times, to say where in the code it was written
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.log.level": "ERROR",
    # a machine that is busy with the load is slow, not dead
    "spark.sql.broadcastTimeout": "36000",
    "spark.network.timeout": "1200s",
    "spark.python.authenticate.socketTimeout": "300s",  # until a worker has connected; 15 s
}
# Arrow's Java library checks bounds and nulls at each value again: a fifth of reading a log in the
# JVM.
ARROW = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
LOCAL = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "3g",
    "spark.sql.shuffle.partitions": "32",
    "spark.driver.extraJavaOptions": ARROW,
}
SMALL = {
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.sql.codegen.cache.maxEntries": "10000",
    "spark.sql.limit.initialNumPartitions": "1000",  # one job for what has no rows, not one a partition
    # the 48 MB that Java reserves for the code of one compiler are too few: it would be thrown away
    # and compiled again
    "spark.driver.extraJavaOptions": f"{ARROW} -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC",
}


def spark_session(
    name: str = "spark_validation",
    connector: bool = False,
    small: bool = False,
    settings: dict[str, str] | None = None,
) -> SparkSession:
    """The session. connector: with Spark's Kafka connector, resolved by its coordinates. small:
    quick to start.

    Under spark-submit its master and settings count. Raises NoJava.
    """
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if not submitted:
        os.environ["JAVA_HOME"] = java_home(CACHE)
        # else Spark looks up the name of this host, which need not have an address
        os.environ.setdefault("SPARK_LOCAL_IP", LOCAL["spark.driver.host"])
        # workers would start the python3 of PATH, which need not be this one
        os.environ.setdefault("SPARK_AUTH_SOCKET_TIMEOUT", "300")  # the workers' side of the same
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    paths = [str(ROOT), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))
    builder = SparkSession.builder.appName(name)
    chosen = dict(SETTINGS)
    if not submitted:
        builder = builder.master(os.environ.get("SPARK_MASTER", "local[*]"))
        chosen |= LOCAL | {"spark.local.dir": os.environ.get("SPARK_LOCAL_DIRS", str(CACHE / "scratch"))}
        chosen |= SMALL if small else {}
        if connector:
            chosen |= {"spark.jars.packages": CONNECTOR, "spark.jars.ivy": str(CACHE / "ivy")}
    for key, value in (chosen | (settings or {})).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    if submitted and small:
        make_small(spark)
    spark.dataSource.register(SegmentSource)
    return spark


def make_small(spark: SparkSession) -> None:
    """The settings of SMALL that a session of spark-submit can still take and was not given: 200
    shuffle partitions, Spark's default, take minutes for nothing.

    Static ones have their values once Java runs, and Spark refuses to set them.
    """
    given = spark.sparkContext.getConf()
    for key, value in SMALL.items():
        if key.startswith("spark.sql.") and not given.contains(key) and spark.conf.isModifiable(key):
            spark.conf.set(key, value)
