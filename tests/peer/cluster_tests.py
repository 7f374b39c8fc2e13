"""Apache Kafka's own tests of requests, run against kbroker:
`python -m tests.peer.cluster_tests [CLASS...]`.

The tests are those of Kafka's jar of core tests that start a cluster by an annotation. The Java
classes in programs/cluster_tests take the place of Kafka's cluster: each test gets one `kbroker
serve` with the settings that it names. A test that needs a second broker, TLS, or the inside of
Kafka's objects is skipped, and so is the second run of a test with a combined controller."""

import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

from kbroker.cli.mirror.jars import JarsMissing
from tests.peer.artifacts import ROOT, PeerUnavailable, class_path
from tests.peer.java import find_java

SOURCES = Path(__file__).parent / "programs" / "cluster_tests"
JARS = "cluster-tests"
TIMEOUT = "-Djunit.jupiter.execution.timeout.default=180 s"
REQUESTS = (
    "ConsumerGroupDescribe ConsumerGroupHeartbeat DeleteGroups DescribeGroups Heartbeat JoinGroup LeaveGroup "
    "ListGroups OffsetCommit OffsetDelete OffsetFetch ShareFetchAcknowledge ShareGroupDescribe "
    "ShareGroupHeartbeat StreamsGroupDescribe StreamsGroupHeartbeat SyncGroup TxnOffsetCommit WriteTxnMarkers"
)
CLASSES = (
    *(f"kafka.server.{request}RequestTest" for request in REQUESTS.split()),
    "kafka.server.ConsumerProtocolMigrationTest",
)
BEYOND = {"testShareFetchRequestToNonLeaderReplica": "needs a second broker"}
"""Tests that kbroker cannot pass, and why."""


def run(java: Path, classes: tuple[str, ...], folder: Path) -> None:
    """Compiles the stand-in, runs these test classes, and leaves JUnit's reports in the folder."""
    jars = class_path(JARS)
    compiled = folder / "classes"
    sources = map(str, SOURCES.rglob("*.java"))
    subprocess.run(
        [java.with_name("javac"), "-nowarn", "-proc:none", "-d", compiled, "-cp", jars, *sources], check=True
    )
    chosen = [word for name in classes for word in ("-c", name)]
    options = [
        "-XX:TieredStopAtLevel=1", "-Djunit.jupiter.extensions.autodetection.enabled=true", TIMEOUT,
        f"-Dpython={sys.executable}", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off",
    ]  # fmt: skip
    launcher = [
        "org.junit.platform.console.ConsoleLauncher", "execute", "--disable-banner", "--details=none",
        f"--reports-dir={folder}",
    ]  # fmt: skip
    path = f"{compiled}:{jars}"
    subprocess.run([java, *options, "-cp", path, *launcher, *chosen], cwd=ROOT, check=False)


def outcomes(folder: Path) -> dict[str, str]:
    """By test: "passed", "skipped: ..." or what it failed with."""
    found: dict[str, str] = {}
    for report in folder.glob("TEST-*jupiter.xml"):
        for case in ElementTree.parse(report).iter("testcase"):
            name = f"{case.get('classname', '').rpartition('.')[2]}.{case.get('name')}"
            found[name] = "passed"
            for kind in ("skipped", "failure", "error"):
                if (result := case.find(kind)) is not None:
                    said = result.get("message") or (result.text or "").strip().partition("\n")[0]
                    found[name] = f"{kind}: {said}"
    return found


def main(arguments: list[str]) -> int:
    java = find_java()
    if java is None:
        print("no Java 17 or newer")
        return 2
    with tempfile.TemporaryDirectory(prefix="cluster-tests-") as folder:
        try:
            run(java, tuple(arguments) or CLASSES, Path(folder))
        except (PeerUnavailable, JarsMissing) as reason:
            print(reason)
            return 2
        found = outcomes(Path(folder))
    passed = sum(result == "passed" for result in found.values())
    skipped = sum(result.startswith("skipped") for result in found.values())
    failed = {name: result for name, result in found.items() if result.startswith(("failure", "error"))}
    known = [name for name in failed if any(test in name for test in BEYOND)]
    for name in sorted(failed.keys() - set(known)):
        print(f"{name}: {failed[name]}")
    print(
        f"{passed} passed, {skipped} skipped, {len(known)} beyond one broker, {len(failed) - len(known)} failed"
    )
    return 0 if passed and len(failed) == len(known) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
