"""The part of docs/compatibility.md on the clients' own test suites, which run from a checkout of
the client: which ran, and with which settings."""

SUITES = """
## The clients' own test suites

Their integration tests, run on 2026-12-01 (confluent-kafka-python and kafka-go on 2026-11-30) from
a checkout of each client against one kbroker. Each test that failed ran beside Apache Kafka 4.3.1
with one broker and the same settings, or needs what the last column names. No test passed there and
failed here, but for those that the last column names.

| suite, version | passed here | what did not pass |
|---|---|---|
| librdkafka v2.15.0, `test-runner` without local tests | 118 of 118 | |
| confluent-kafka-python v2.15.0, `tests/integration` | 106 of 107 | 1, as with Apache Kafka; not run: the registry |
| kafka-python 3.1 (development), `test/integration` | 53 of 53 | not run: SASL and TLS |
| aiokafka 0.14.0, `tests` that need a broker | 234 of 236 | 2 need Kerberos |
| franz-go v1.21.5, `pkg/kgo` | 115 of 115 | 2 skipped without SCRAM |
| franz-go v1.21.5, `pkg/kfake/kafka_tests` | 48 of 54 | 6, as with Apache Kafka |
| kafka-go v0.4.50, root package | 152 of 161 | 4, as with Apache Kafka; 5 name port 9092 |
| sarama v1.60.1, tag `functional` | 62 of 66 | 4 stop a broker, or need a second one |
| kafkajs 2.2.4, all but `src/protocol` | 638 of 741 | 103, as with Apache Kafka: three brokers, Kafka 2.4 |
| @platformatic/kafka 2.9.0, `test/clients`, 5 files | 457 of 465 | 8, as with Apache Kafka: three brokers |
| @confluentinc/kafka-javascript 1.10.0, `test/promisified` | 196 of 197 | 1 has a limit of 1 ms, and passes alone |
| rdkafka for Rust 0.38.0, `tests` | 46 of 49 | 3 name port 9092 |
| rskafka 0.6.0, `tests` without librdkafka | 23 of 24 | 1, as with Apache Kafka |

They take the broker's address in this way:

- librdkafka: `tests/test.conf` with `bootstrap.servers`, then `TESTS=0090 ./test-runner -p1 -Q -L`
  with `TEST_KAFKA_VERSION=4.3.1`. Topics with three replicas need kbroker's default of
  `kbroker.clamp.replication.factor`. Its broker has `num.partitions=4`, an authorizer, and no super
  user that clients without a login are.
- confluent-kafka-python: `BROKERS`; share consumers with `group.share.record.lock.duration.ms=1000`
  and the same minimum.
- kafka-python: `KAFKA_URI=kafka://HOST:PORT`, `KAFKA_VERSION=4.3.1`; `node.id=0`,
  `num.partitions=4`, `group.min.session.timeout.ms=1000`.
- franz-go: `KGO_SEEDS`, `KGO_TEST_RF=1`, `KGO_TEST_RECORDS=50000`; `pkg/kfake/kafka_tests` with
  `group.consumer.heartbeat.interval.ms=500` and the same minimum.
- aiokafka: `num.partitions=2` and `node.id=0`; kafkajs: `num.partitions=2`; @platformatic/kafka:
  the heartbeat intervals of its `docker-compose.yml`.
- sarama: `TOXIPROXY_ADDR` and `KAFKA_VERSION`; one broker behind toxiproxy, replication factor 1 in
  `functional_test.go`.
- kafka-javascript and rdkafka for Rust: `KAFKA_HOST`; the latter with `node.id=0`,
  `num.partitions=3`; rskafka: `KAFKA_CONNECT`, `TEST_INTEGRATION=1`, `TEST_BROKER_IMPL=kafka`.
- The others have the address in a file of helpers.

### Apache Kafka's tests of requests

<!-- not run: takes half an hour, and needs Maven and javac -->
```sh
python -m tests.peer.cluster_tests
```

runs Kafka 4.3.1's own tests of group, share and streams requests, offsets, members and transaction
markers. Name test classes to run some: `kafka.server.JoinGroupRequestTest`. Each test gets a
kbroker of its own. It needs Maven and a Java compiler. Classes of Kafka's clients and tools
run, too: `org.apache.kafka.clients.consumer.PlaintextConsumerTest`.
"""
