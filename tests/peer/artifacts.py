"""The peer's jars in `.cache/`, resolved once by Maven, or by the Ivy that Spark brings along.

`poms/` names further sets of jars: Kafka Connect, and earlier Apache Kafkas. A test that needs one has it fetched."""

from pathlib import Path

from kbroker.cli.mirror.jars import JarsMissing, resolve_once
from tests.peer.java import find_java

POM = Path(__file__).parent / "pom.xml"
ROOT = Path(__file__).parents[2]
KAFKA_VERSION = "4.3.1"
CACHE = ROOT / ".cache"
POMS = POM.parent / "poms"
KAFKA = f"kafka-{KAFKA_VERSION}"


class PeerUnavailable(Exception):
    """The peer cannot be had on this machine; the text says what is missing and what brings it."""


def class_path(jars: str = KAFKA) -> str:
    """Java class path of Apache Kafka with its tools, or of a set of `poms/`; resolves jars that
    are not there yet.

    Raises PeerUnavailable when there is no Java, no resolver, or the resolver fails.
    """
    java = find_java()
    if java is None:
        raise PeerUnavailable("no Java 17 or newer on PATH or in JAVA_HOME (`make peer` brings one)")
    pom = POM if jars == KAFKA else POMS / f"{jars}.xml"
    try:
        resolve_once(java, pom, CACHE / jars)
    except JarsMissing as missing:
        raise PeerUnavailable(f"{missing} (`make peer` brings what it can)") from None
    return str(CACHE / jars / "*")
