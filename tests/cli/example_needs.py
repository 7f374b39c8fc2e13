"""What each example of docs/cli.md needs before it can run as it is written: a broker with certain
settings, records, a group, a store, Apache Kafka.

Keys of tables are beginnings of examples.
"""

from tests.docs.blocks import ROOT
from tests.docs.session import UNITS

# Examples that run until Ctrl-C: they get it when they have printed something, and that is their
# ordinary end.
STAYS = (
    "kbroker top",
    "kbroker top --url http://127.0.0.1:9404/",
    "kbroker consume orders --from-beginning",
    "kbroker consume orders --from 2h --print-key --print-timestamp",
    "kbroker consume orders --group billing",
    "kbroker groups describe billing --watch",
)
# Examples that ask on a terminal, and the answers: they confirm a removal, or give a password
# twice.
ASK = {
    "kbroker groups remove-members billing --instance worker-3": "y",
    "kbroker acls remove --principal User:alice --topic orders --operation read": "y",
    "kbroker users remove alice": "y",
    "kbroker quotas remove --user alice producer_byte_rate": "y",
    "kbroker backups prune /backup/kbroker --keep 48": "y",
    "kbroker users add alice": "secret secret",
}
# Examples that come last, when the part's own broker has stopped. A broker must be ready, and stop.
SERVE, KAFKA = "kbroker serve", "kafka-server-start.sh"
AFTER = (SERVE, "kbroker export kraft", KAFKA)
CRONTAB = "0 * * * *"
"""How a line of a crontab begins; cron gives the rest to sh."""
# Commands that end with 1 for what they find out about this host, or about a run on it.
SAYS_OF_THE_HOST = ("kbroker tune check", "kbroker tune size", "kbroker judge --history RUN")
# Examples that no test here runs, and why.
NOT_RUN = {
    "kbroker tune verify --config server.properties --try": "measures for ten minutes, with nothing "
    "else on the machine; tests/tuning/verify/test_with_a_broker.py has a short one",
}

TOOLS = ("tune", "loadtest", "judge", "move", "import")
PARTS: dict[str, tuple[str, ...]] = {
    "records": ("serve", "status", "top", "systemd", "produce", "consume", "offsets", "clients"),
    "topics": ("topics", "configs", "cluster"),
    "groups": ("groups", "share-groups", "transactions"),
    "rights": ("acls", "users", "tokens", "quotas", "client-metrics"),
    "files": ("backup", "restore", "backups", "log", "export", "docs", *TOOLS),
    "sites": (),
    "kafka": (),
    "move": (),
    "move_topics": (),
    "import": (),
    "loads": (),
}
"""The parts of the page, by the commands whose examples they have."""
APART = {
    "kbroker topics reassign audit --cancel": "sites",
    KAFKA: "kafka",
    "kbroker move --to kafka1:9092,kafka2:9092 --to-config": "move",
    "kbroker move --to kafka1:9092 ": "move_topics",
    "kbroker import --from kafka1:9092 ": "import",
    "kbroker tune bench": "loads",
    "kbroker loadtest run": "loads",
    "kbroker loadtest overhead": "loads",
    "kbroker judge": "loads",
}
"""Examples with other needs than their neighbours on the page: the parts that run them."""

STEPS_S = {"loads": 900}
"""Limits of an example in some parts: a load of a minute and its verdict, on a busy machine."""

# The broker of a part: its log dirs, and the settings that other parts' brokers do not have.
DATA = {"loads": "/var/lib/kbroker"}
LOG_DIRS = {"topics": "$DATA,/disk2/kbroker", "sites": "$DATA,/disk2/kbroker"}
PLAIN = "--override listeners=PLAINTEXT://127.0.0.1:9092"
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SETTINGS = {
    "sites": f'{PLAIN} --override "kbroker.replica.sites=$DATA;/disk2/kbroker"',
    "rights": f"""\
--override listeners=PLAINTEXT://127.0.0.1:9092,SASL_PLAINTEXT://127.0.0.1:9093 \\
  --override sasl.enabled.mechanisms=PLAIN --override delegation.token.secret.key=a-secret-of-tokens \\
  --override 'listener.name.sasl_plaintext.plain.sasl.jaas.config={LOGIN} user_alice="secret";'""",
}

FILL = "seq 3000 | kbroker produce orders -q -p 0; seq 90 | kbroker produce orders -q"
FILLED = 3090
READ = "kbroker consume {topic} --group {group} --from-beginning -n 5 -q > /dev/null"
CLUSTER = f"""
cat > cluster.properties << 'END'
security.protocol=SASL_PLAINTEXT
sasl.mechanism=PLAIN
sasl.jaas.config={LOGIN} username="admin" password="secret";
END
start_kafka SASL_PLAINTEXT cluster.properties
"""
BEFORE = {
    "kbroker systemd /etc/kbroker": f"mkdir -p /etc/kbroker {UNITS}; "
    "echo log.dirs=/x > /etc/kbroker/server.properties",
    "kbroker produce orders records.txt": "seq -f 'k%.0f:v' 100 > records.txt",
    "kbroker consume orders --group billing": READ.format(topic="orders", group="billing"),
    "kbroker topics create orders": "kbroker topics delete orders --yes",
    "kbroker topics list": FILL,
    "kbroker topics delete-records orders:0:50": f"kbroker topics create orders -p 3; {FILL}",
    # The copy of 8 MB takes hours at this rate, so the reassignment is pending.
    "kbroker topics reassign audit --cancel": """
kbroker topics create audit -p 1; kbroker topics reassign audit --replicas 1
until [ "$(kbroker topics reassignments --json)" = '[]' ]; do sleep 0.2; done
kbroker configs alter topic audit --set 'follower.replication.throttled.replicas=*'
kbroker configs alter broker --default --set follower.replication.throttled.rate=1000
head -c 6000000 /dev/urandom | base64 -w 1000 | kbroker produce audit -q
kbroker topics reassign audit --replicas 2
[ "$(kbroker topics reassignments --json)" != '[]' ]""",
    "kbroker groups list": READ.format(topic="orders", group="billing"),
    "kbroker groups delete billing audit": READ.format(topic="orders", group="audit"),
    "kbroker groups delete-offsets": "kbroker topics create audit; seq 9 | kbroker produce audit -q; "
    "kbroker consume orders audit --group billing --from-beginning -e -q > /dev/null",
    "kbroker groups remove-members billing --instance": """
kbroker consume orders -g billing -X group.instance.id=worker-3 > /dev/null & MEMBER=$!
until kbroker groups describe billing --members | grep worker-3 > /dev/null; do sleep 0.2; done""",
    "kbroker log dump data/__consumer_offsets": READ.format(topic="orders", group="billing"),
    "kbroker client-metrics describe producers": "kbroker client-metrics alter producers "
    "--metrics org.apache.kafka.producer.",
    "kbroker share-groups describe": "kbroker share-groups reset-offsets workers --topic orders "
    "--to-earliest --execute",
    "kbroker groups remove-members billing --all": "kill $MEMBER || true; wait $MEMBER || true",
    "kbroker groups reset-offsets billing --topic orders --to-earliest": """
until kbroker groups list --state Empty | grep billing > /dev/null; do sleep 0.2; done""",
    "kbroker transactions describe payments-1": """python -c '
from confluent_kafka import Producer
producer = Producer({"bootstrap.servers": "127.0.0.1:9092", "transactional.id": "payments-1"})
producer.init_transactions(120)'""",
    "kbroker transactions abort": f"""
kbroker configs alter broker --default --set transaction.partition.verification.enable=false
kbroker topics delete orders --yes; kbroker topics create orders; seq 1500 | kbroker produce orders -q -p 0
(cd {ROOT} && python -m tests.cli.hanging_record 9092 orders 0)""",
    "kbroker tokens": """
cat > alice.properties << 'END'
bootstrap.servers=127.0.0.1:9093
security.protocol=SASL_PLAINTEXT
sasl.mechanism=PLAIN
sasl.username=alice
sasl.password=secret
END
HMAC=$(kbroker tokens create --command-config alice.properties --json | jq -r .hmac)""",
    "AWS_ENDPOINT_URL": f"""
mkdir certificates
echo "D=$PWD/certificates; cd {ROOT} && exec python -m tests.cli.backup.s3_server 9000 \\$D" > .store.sh
stay .store.sh 'the store answers'
export SSL_CERT_FILE=$PWD/certificates/authority.crt
export AWS_ACCESS_KEY_ID=backup AWS_SECRET_ACCESS_KEY=secret""",
    # A backup of today, dated back: the example restores one of January.
    "kbroker restore /backup/kbroker /tmp/orders --to": """
sed "s/\\"time_ms\\": *[0-9]*/\\"time_ms\\": $(date -d 2026-01-31T11:00:00Z +%s)000/" \\
  "$(ls /backup/kbroker/points/*.json | tail -1)" > /backup/kbroker/points/20260131T110000.000000Z.json""",
    "kbroker tune ": 'mkdir -p tuned; echo "log.dirs=$PWD/tuned" > server.properties',
    "kbroker tune bench": "",
    "kbroker users add admin --offline": 'echo "log.dirs=$PWD/offline" > server.properties',
    "kbroker users remove alice --yes": "echo x | kbroker users add alice --password-file -",
    "kbroker serve server.properties": 'echo "log.dirs=$PWD/served" > server.properties',
    "kbroker export kraft --properties": 'echo "log.dirs=$PWD/data" > server.properties',
    "kbroker export kraft --kafka 3.9": """
cat > .two.sh <<< 'kbroker serve --override log.dirs=/disk1/data,/disk2/data \\
  --override listeners=PLAINTEXT://127.0.0.1:9092'
begin .two.sh 'kbroker ready in'""",
    "kbroker move --to kafka1:9092,kafka2:9092 --plan": """
cat > .cluster.sh <<< 'kbroker serve --override log.dirs=cluster \\
  --override listeners=PLAINTEXT://kafka1:9092 --override kbroker.http.listen='
stay .cluster.sh 'kbroker ready in'
kbroker topics create payments -b kafka1:9092""",
    # Apache Kafka takes the listener of the broker's own file, with a name and without one for its
    # requests.
    KAFKA: r"""
printf 'listeners=INSIDE://127.0.0.1:9092\nlistener.security.protocol.map=INSIDE:PLAINTEXT\n' > own.properties
kbroker export kraft --properties own.properties data > kraft.properties""",
    "kbroker move --to kafka1:9092,kafka2:9092 --to-config": CLUSTER,
    "kbroker move --to kafka1:9092 --topic": """
start_kafka PLAINTEXT
kbroker topics create payments; seq 100 | kbroker produce payments -q""",
    "kbroker import --from kafka1:9092 --from-config": f"""{CLUSTER}
kbroker topics create payments -b kafka1:9092 --command-config cluster.properties
seq 100 | kbroker produce payments -q -b kafka1:9092 --command-config cluster.properties""",
    # The first run of the part, by the names that the examples give it.
    "kbroker judge --history reports": """
ln -s "$PWD/$(ls -d reports/load/* | head -1)" reports/load/20260131-120000""",
    "kbroker judge --history RUN": "ln -s reports/load/20260131-120000 RUN",
}
"""What must be there before an example, as on the system of a user who needs it."""
STDIN = {"kbroker users add admin --offline": "--password-file - <<< secret"}
# A broker that the example starts, and the records that it has.
RUNS_KAFKA = """cat > .kafka.sh <<< '{words}'
setsid bash .kafka.sh > kafka.log 2>&1 & STARTED=$!
until kbroker topics describe orders > /dev/null 2>&1; do
  kill -0 $STARTED || {{ tail -n 50 kafka.log; exit 1; }}; sleep 0.5
done
[ "$(kbroker consume orders --exact-count)" = {filled} ]"""
