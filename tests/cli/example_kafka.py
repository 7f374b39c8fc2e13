"""Apache Kafka as examples name it: its programs on PATH, its folder /opt/kafka, a broker at
kafka1:9092."""

import shlex
from pathlib import Path

from kbroker.cli.mirror.jars import class_path
from tests.docs.session import placed
from tests.peer.tools import java_command

HEAP = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
PROGRAMS = {"kafka-server-start.sh": "kafka.Kafka", "kafka-storage.sh": "kafka.tools.StorageTool"}
HOME = "/opt/kafka"
START_KAFKA = """
export PATH=$PWD/bin:$PATH JAVA_TOOL_OPTIONS='-XX:TieredStopAtLevel=1 -XX:+UseSerialGC'
start_kafka() { # start_kafka PROTOCOL [CLIENT.PROPERTIES]: runs Apache Kafka at kafka1:9092
    cat > kafka.properties << END
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:9193
listeners=$1://kafka1:9092,CONTROLLER://127.0.0.1:9193
advertised.listeners=$1://kafka1:9092
controller.listener.names=CONTROLLER
inter.broker.listener.name=$1
listener.security.protocol.map=$1:$1,CONTROLLER:PLAINTEXT
sasl.enabled.mechanisms=PLAIN
sasl.mechanism.inter.broker.protocol=PLAIN
listener.name.sasl_plaintext.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule \\
    required username="admin" password="secret" user_admin="secret";
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:admin;User:ANONYMOUS
log.dirs=$PWD/kafka
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
group.initial.rebalance.delay.ms=0
END
    kafka-storage.sh format -t MkU3OEVBNTcwNTJENDM2Qg -c kafka.properties > /dev/null
    setsid kafka-server-start.sh kafka.properties > kafka.log 2>&1 &
    until kbroker cluster describe -b kafka1:9092 ${2:+--command-config $2} > /dev/null 2>&1; do
        kill -0 $! || { tail -n 50 kafka.log; exit 1; }
        sleep 0.5
    done
}
"""


def install(folder: Path) -> str:
    """Makes the programs and the folder; the part of the script that uses them. Raises
    PeerUnavailable, JarsMissing."""
    programs = folder / "bin"
    programs.mkdir()
    for name, main_class in PROGRAMS.items():
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec {shlex.join(java_command(main_class, jvm=HEAP))} "$@"\n')
        program.chmod(0o755)
    home = Path(placed(HOME, folder))
    home.mkdir()
    (home / "libs").symlink_to(Path(class_path(None)).parent)
    return START_KAFKA
