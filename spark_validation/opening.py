"""Opens the evidence that command line options name, or raises CannotJudge with the reason."""

import argparse
import json
import socket
import tempfile
from collections import Counter
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.storagelevel import StorageLevel

from loadtest.brokers import NoBroker
from loadtest.client_settings import read_settings
from loadtest.run import Run, load_run
from loadtest.settings import WrongSetting
from spark_validation import log_frames
from spark_validation.evidence import Evidence
from spark_validation.java import NoJava
from spark_validation.segments.ranges import partition_folders
from spark_validation.soundness import (
    require_agreement,
    require_once,
    require_partitions,
    require_whole,
)
from spark_validation.verdict import CannotJudge

SMALL_BYTES = 64 << 20  # of histories: below it a session that starts quickly beats one that computes quickly


def open_evidence(options: argparse.Namespace, following: bool = False) -> Evidence:
    """Session and frames. following: the log still grows, so nothing of it is kept. Raises
    CannotJudge. The caller closes it when no frame of it is read any more."""
    from spark_validation.session import spark_session

    require_whole(options.history)
    require_once(options.history)
    require_agreement(options.history, opened_run(options.history))
    run = opened_run(options.history, options.topics)
    topics = [topic.name for topic in run.topics]
    data_dirs = required_log(options, run)
    small = sum(path.stat().st_size for path in options.history.rglob("*.parquet")) < SMALL_BYTES
    try:
        spark = spark_session(connector=not data_dirs, small=small)
    except NoJava as reason:
        raise CannotJudge(str(reason)) from reason
    landing = None if following else landing_folder(spark, getattr(options, "landing", None))
    if data_dirs:
        if landing is None:
            log = log_frames.segment_log(spark, data_dirs, topics, run.run)
        else:
            log = log_frames.landed_log(spark, data_dirs, topics, run.run, Path(landing.name, "log"))
        evidence = Evidence(spark, options.history, log, "segments", data_dirs=data_dirs, landing=landing)
        evidence.batches = log_frames.segment_batches(spark, data_dirs, topics).persist(
            StorageLevel.DISK_ONLY
        )
    else:
        transactional = any(topic.mode in ("transactional", "copied") for topic in run.topics)
        ends = {
            topic: {partition: found.high_watermark for partition, found in partitions.items()}
            for topic, partitions in run.ends.items()
        }
        ends = ends if set(ends) == set(topics) else {}
        log = log_frames.connector_log(spark, options.bootstrap, topics, run.run, transactional, ends)
        log = log.unpersist() if following else log
        evidence = Evidence(spark, options.history, log, "connector", landing=landing)
    evidence.run = run  # with the chosen topics alone
    if getattr(options, "earlier", None):
        earlier = directories(options.earlier)
        require_folders(earlier, topics)
        evidence.earlier = log_frames.segment_log(spark, earlier, topics, run.run)
        evidence.earlier_batches = log_frames.segment_batches(spark, earlier, topics, check=False)
    return evidence


def required_log(options: argparse.Namespace, run: Run) -> list[str]:
    """The log directories to read; none if the broker is read. Raises CannotJudge."""
    data_dirs = directories(options.segments) or ([] if options.bootstrap else existing(run.data_dirs))
    file = getattr(options, "command_config", None)
    if data_dirs:
        require_folders(data_dirs, [topic.name for topic in run.topics])
        require_partitions(data_dirs, run)
        if file is not None:
            raise CannotJudge("--command-config is used with --bootstrap; segment files need no login")
    elif not options.bootstrap:
        raise CannotJudge("no log to judge by: give --segments DATA_DIR or --bootstrap HOST:PORT")
    else:
        require_listening(options.bootstrap)
        require_login(options.bootstrap, file)
    return data_dirs


def landing_folder(spark: SparkSession, chosen: Path | None) -> tempfile.TemporaryDirectory[str] | None:
    """The folder of log and histories as few Parquet files until the judgement is over: a folder
    that driver and executors share.

    On this machine Spark's own scratch; on a cluster only what is chosen, else every check reads
    the segments and all files of the histories again.
    """
    if chosen is None and spark.sparkContext.master.startswith("local"):
        scratch = spark.sparkContext.getConf().get("spark.local.dir") or tempfile.gettempdir()
        chosen = Path(scratch.split(",")[0])
    if chosen is None:
        return None
    chosen.mkdir(parents=True, exist_ok=True)
    return tempfile.TemporaryDirectory(prefix="log-", dir=chosen.absolute())


def opened_run(folder: Path, topics: str | None = None) -> Run:
    """The content of run.json, of the chosen topics alone (comma separated). Raises CannotJudge."""
    try:
        run = load_run(folder)
    except FileNotFoundError as error:
        raise CannotJudge(f"{folder} holds no run.json") from error
    except (json.JSONDecodeError, ValueError, KeyError, TypeError) as error:
        raise CannotJudge(f"{folder}/run.json: {error}") from error
    return narrowed(run, directories(topics)) if topics else run


def narrowed(run: Run, chosen: list[str]) -> Run:
    """The run with these topics alone: what was asked of others has no rows to be compared with.
    Raises CannotJudge for a topic that the run has not: nothing of it would be judged."""
    missing = sorted({*chosen} - {topic.name for topic in run.topics})
    if missing or not chosen:
        raise CannotJudge(f"the run has no topic {', '.join(missing[:5])}")
    run.topics = [topic for topic in run.topics if topic.name in chosen]
    run.ends = {name: ends for name, ends in run.ends.items() if name in chosen}
    run.committed = {
        group: {name: offsets for name, offsets in topics.items() if name in chosen}
        for group, topics in run.committed.items()
    }
    run.deletions = [one for one in run.deletions if one.topic in chosen]
    return run


def directories(option: str | None) -> list[str]:
    """Parts of an option, also of one that lists topics."""
    return [part for part in (option or "").split(",") if part]


def existing(data_dirs: list[str]) -> list[str]:
    """Log directories of the run, if all of them are on this machine."""
    return data_dirs if data_dirs and all(Path(data_dir).is_dir() for data_dir in data_dirs) else []


def require_folders(data_dirs: list[str], topics: list[str]) -> None:
    """Raises CannotJudge when a directory, or every partition of a topic, is missing: then the path
    is wrong."""
    for data_dir in data_dirs:
        if not Path(data_dir).is_dir():
            raise CannotJudge(f"{data_dir} is no directory")
    folders = partition_folders(data_dirs, topics)
    places = Counter((topic, partition) for _, topic, partition in folders)
    if twice := sorted(f"{topic}-{partition}" for (topic, partition), logs in places.items() if logs > 1):
        raise CannotJudge(f"two logs of {', '.join(twice[:5])}: name the directories of one replica")
    found = {topic for topic, _ in places}
    if missing := [topic for topic in topics if topic not in found]:
        raise CannotJudge(f"no partition of {', '.join(missing)} below {', '.join(data_dirs)}")


def require_login(bootstrap: str, file: Path | None) -> None:
    """Read the settings with which the connector logs in. file: the one of --command-config."""
    if file is None:
        return
    try:
        read_settings(file, bootstrap.split(",")[0], True)
    except (NoBroker, WrongSetting) as reason:
        raise CannotJudge(str(reason)) from reason


def require_listening(bootstrap: str) -> None:
    host, _, port = bootstrap.split(",")[0].rpartition(":")
    if not (host and port.isascii() and port.isdecimal()):
        raise CannotJudge(f"--bootstrap {bootstrap}: expected HOST:PORT,...")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
    except (OSError, OverflowError, ValueError) as error:
        raise CannotJudge(f"{bootstrap} does not answer: {error}") from error
