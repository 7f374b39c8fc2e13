"""The peer's jars in `.cache/`, resolved once by Maven, or by the Ivy that Spark brings along.

`poms/` names further sets of jars: Kafka Connect, and earlier Apache Kafkas. A test that needs one has it fetched."""

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from tests.peer.java import find_java

POM = Path(__file__).parent / "pom.xml"
ROOT = Path(__file__).parents[2]
KAFKA_VERSION = "4.3.1"
SYSTEM_TRUST_STORE = Path("/etc/ssl/certs/java/cacerts")
CACHE = ROOT / ".cache"
POMS = POM.parent / "poms"
KAFKA = f"kafka-{KAFKA_VERSION}"


class PeerUnavailable(Exception):
    """The peer cannot be had on this machine; the text says what is missing and what brings it."""


def class_path(jars: str = KAFKA) -> str:
    """Java class path of Apache Kafka with its tools, or of a set of `poms/`; resolves jars that are not there yet.

    Raises PeerUnavailable when there is no Java, no resolver, or the resolver fails.
    """
    java = find_java()
    if java is None:
        raise PeerUnavailable("no Java 17 or newer on PATH or in JAVA_HOME (`make peer` brings one)")
    pom = POM if jars == KAFKA else POMS / f"{jars}.xml"
    folder = CACHE / jars
    CACHE.mkdir(parents=True, exist_ok=True)
    wanted = hashlib.sha256(pom.read_bytes()).hexdigest()
    with open(CACHE / "kafka.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        mark = folder / ".complete"
        if not (mark.exists() and mark.read_text() == wanted):
            resolve(java, pom, folder)
            mark.write_text(wanted)
    return str(folder / "*")


def resolve(java: Path, pom: Path, folder: Path) -> None:
    """Copies all jars of a pom into an empty cache folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if mvn := shutil.which("mvn"):
        goal = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
        command = [mvn, "--batch-mode", "--quiet", "-f", str(pom), goal, f"-DoutputDirectory={folder}"]
        commands = [command]
    elif ivy := spark_ivy():
        commands = [ivy_command(java, ivy, folder, *coordinate) for coordinate in coordinates(pom)]
    else:
        raise PeerUnavailable("neither Maven nor Spark's Ivy to fetch jars with (`make peer` brings one)")
    for command in commands:
        environment = os.environ | {"JAVA_HOME": os.environ.get("JAVA_HOME", str(java.resolve().parents[1]))}
        done = subprocess.run(command, capture_output=True, text=True, timeout=900, env=environment)
        if done.returncode:
            raise PeerUnavailable(f"resolving the jars failed: {(done.stdout + done.stderr)[-800:]}")


def spark_ivy() -> Path | None:
    """The Ivy jar inside an installed pyspark."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        return None
    return next((Path(spec.origin).parent / "jars").glob("ivy-*.jar"), None)


def coordinates(pom: Path) -> list[tuple[str, str, str]]:
    """(group, artifact, version) of each dependency in a pom."""
    space = {"m": "http://maven.apache.org/POM/4.0.0"}
    names = ("groupId", "artifactId", "version")
    return [
        (found[0], found[1], found[2])
        for row in ElementTree.parse(pom).iterfind(".//m:dependency", space)
        if (found := [row.findtext(f"m:{name}", "", space) for name in names])
    ]


def ivy_command(java: Path, ivy: Path, folder: Path, group: str, artifact: str, version: str) -> list[str]:
    pattern = str(folder / "[artifact]-[revision](-[classifier]).[ext]")
    # A machine's own certificates (of a company's proxy, say) are unknown to a Java that came as a wheel.
    trust = [f"-Djavax.net.ssl.trustStore={SYSTEM_TRUST_STORE}"] if SYSTEM_TRUST_STORE.exists() else []
    return [
        *(str(java), *trust, "-jar", str(ivy), "-warn", "-cache", str(CACHE / "ivy")),
        *("-dependency", group, artifact, version, "-confs", "default", "-types", "jar", "bundle"),
        *("-retrieve", pattern),
    ]
