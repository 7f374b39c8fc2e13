"""Kafka's broker and topic settings that are accepted but change nothing on one host, each group
with its reason.

They are parsed and checked like the others and shown by DescribeConfigs, so that a
server.properties of a Kafka cluster loads as it is; the first start that finds one set says so
once.
"""

from msgspec import Struct

from kbroker.config.checks import Assignors, KnownClass, NotEmpty, at_least, between, list_of, one_of_any_case
from kbroker.config.setting import (
    BOOLEAN,
    CLASS,
    CLUSTER,
    DOUBLE,
    HIGH,
    INT,
    LIST,
    LONG,
    LONG_MAX,
    LOW,
    PASSWORD,
    PER_BROKER,
    SHORT,
    STRING,
    Setting,
)


class InertGroup(Struct, frozen=True):
    """Rows that have no effect, and why."""

    title: str
    rows: tuple[Setting, ...]
    reason: str


# fmt: off
_CONTROLLERS = (
    Setting("broker.heartbeat.interval.ms", INT, 2000),
    Setting("controlled.shutdown.enable", BOOLEAN, True),
    Setting("controller.performance.always.log.threshold.ms", LONG, 2000, at_least(0), internal=True),
    Setting("controller.performance.sample.period.ms", LONG, 60000, at_least(100), internal=True),
    Setting("controller.quorum.append.linger.ms", INT, 25, at_least(0)),
    Setting("controller.quorum.auto.join.enable", BOOLEAN, False, importance=LOW),
    Setting("controller.quorum.bootstrap.servers", LIST, (), importance=HIGH),
    Setting("controller.quorum.election.backoff.max.ms", INT, 1000, at_least(0), importance=HIGH),
    Setting("controller.quorum.election.timeout.ms", INT, 1000, at_least(0), importance=HIGH),
    Setting("controller.quorum.fetch.max.bytes", INT, 1048576, at_least(1), importance=LOW),
    Setting("controller.quorum.fetch.snapshot.max.bytes", INT, 1048576, at_least(1), importance=LOW),
    Setting("controller.quorum.fetch.timeout.ms", INT, 2000, at_least(0), importance=HIGH),
    Setting("controller.quorum.request.timeout.ms", INT, 2000, at_least(0)),
    Setting("controller.quorum.retry.backoff.ms", INT, 20, at_least(0), importance=LOW),
    Setting("controller.quorum.voters", LIST, (), importance=HIGH),
    Setting("controller.socket.timeout.ms", INT, 30000),
    Setting("early.start.listeners", LIST, None, list_of(may_be_null=True), importance=HIGH),
    Setting("initial.broker.registration.timeout.ms", INT, 60000),
    Setting("internal.metadata.delete.delay.millis", LONG, 60000, importance=LOW, internal=True),
    Setting("internal.metadata.log.segment.bytes", INT, None, importance=LOW, internal=True),
    Setting("internal.metadata.max.batch.size.in.bytes", INT, 8388608, importance=LOW, internal=True),
    Setting("metadata.log.dir", STRING, None, importance=HIGH),
    Setting("metadata.log.max.record.bytes.between.snapshots", LONG, 20971520, at_least(1), importance=HIGH),
    Setting("metadata.log.max.snapshot.interval.ms", LONG, 3600000, at_least(0), importance=HIGH),
    Setting("metadata.log.segment.bytes", INT, 1073741824, at_least(8388608), importance=HIGH),
    Setting("metadata.log.segment.ms", LONG, 604800000, importance=HIGH),
    Setting("metadata.max.idle.interval.ms", INT, 500, at_least(0), importance=LOW),
    Setting("metadata.max.retention.bytes", LONG, 104857600, importance=HIGH),
    Setting("metadata.max.retention.ms", LONG, 604800000, importance=HIGH),
    Setting("process.roles", LIST, ("broker",), list_of("broker", "controller", may_be_empty=False),
            importance=HIGH),
    Setting("request.timeout.ms", INT, 30000, importance=HIGH),
    Setting("server.max.startup.time.ms", LONG, LONG_MAX, at_least(0), internal=True),
    Setting("socket.connection.setup.timeout.max.ms", LONG, 30000),
    Setting("socket.connection.setup.timeout.ms", LONG, 10000),
    Setting("unclean.leader.election.interval.ms", LONG, 300000, at_least(1), internal=True),
    Setting("unstable.api.versions.enable", BOOLEAN, False, importance=HIGH, internal=True),
    Setting("unstable.feature.versions.enable", BOOLEAN, False, importance=HIGH, internal=True),
)

_REPLICATION = (
    Setting("alter.log.dirs.replication.quota.window.num", INT, 11, at_least(1), importance=LOW),
    Setting("alter.log.dirs.replication.quota.window.size.seconds", INT, 1, at_least(1), importance=LOW),
    Setting("follower.fetch.last.tiered.offset.enable", BOOLEAN, False, dynamic=CLUSTER),
    Setting("log.dir.failure.timeout.ms", LONG, 30000, at_least(1), importance=LOW),
    Setting("num.replica.alter.log.dirs.threads", INT, None, importance=HIGH),
    Setting("num.replica.fetchers", INT, 1, at_least(1), CLUSTER, HIGH),
    Setting("replica.fetch.backoff.ms", INT, 1000, at_least(0)),
    Setting("replica.fetch.max.bytes", INT, 1048576, at_least(0)),
    Setting("replica.fetch.min.bytes", INT, 1, importance=HIGH),
    Setting("replica.fetch.response.max.bytes", INT, 10485760, at_least(0)),
    Setting("replica.fetch.wait.max.ms", INT, 500, importance=HIGH),
    Setting("replica.high.watermark.checkpoint.interval.ms", LONG, 5000, importance=HIGH),
    Setting("replica.selector.class", STRING, None),
    Setting("replica.socket.receive.buffer.bytes", INT, 65536, importance=HIGH),
    Setting("replica.socket.timeout.ms", INT, 30000, importance=HIGH),
    Setting("replication.quota.window.num", INT, 11, at_least(1), importance=LOW),
    Setting("replication.quota.window.size.seconds", INT, 1, at_least(1), importance=LOW),
)

_TIERED_STORAGE = (
    Setting("log.local.retention.bytes", LONG, -2, at_least(-2), CLUSTER),
    Setting("log.local.retention.ms", LONG, -2, at_least(-2), CLUSTER),
    Setting("remote.fetch.max.wait.ms", INT, 500, at_least(1), CLUSTER),
    Setting("remote.list.offsets.request.timeout.ms", LONG, 30000, at_least(1), CLUSTER),
    Setting("remote.log.index.file.cache.total.size.bytes", LONG, 1073741824, at_least(1), CLUSTER, LOW),
    Setting("remote.log.index.file.cache.ttl.ms", LONG, 900000, at_least(-1), importance=LOW, internal=True),
    Setting("remote.log.manager.copier.thread.pool.size", INT, 10, at_least(1), CLUSTER),
    Setting("remote.log.manager.copy.max.bytes.per.second", LONG, LONG_MAX, at_least(1), CLUSTER),
    Setting("remote.log.manager.copy.quota.window.num", INT, 11, at_least(1)),
    Setting("remote.log.manager.copy.quota.window.size.seconds", INT, 1, at_least(1)),
    Setting("remote.log.manager.expiration.thread.pool.size", INT, 10, at_least(1), CLUSTER),
    Setting("remote.log.manager.fetch.max.bytes.per.second", LONG, LONG_MAX, at_least(1), CLUSTER),
    Setting("remote.log.manager.fetch.quota.window.num", INT, 11, at_least(1)),
    Setting("remote.log.manager.fetch.quota.window.size.seconds", INT, 1, at_least(1)),
    Setting("remote.log.manager.follower.thread.pool.size", INT, 2, at_least(1), CLUSTER),
    Setting("remote.log.manager.task.interval.ms", LONG, 30000, at_least(1), importance=LOW),
    Setting("remote.log.manager.task.retry.backoff.max.ms", LONG, 30000, at_least(1), importance=LOW,
            internal=True),
    Setting("remote.log.manager.task.retry.backoff.ms", LONG, 500, at_least(1), importance=LOW,
            internal=True),
    Setting("remote.log.manager.task.retry.jitter", DOUBLE, 0.2, between(0, 0.5), importance=LOW,
            internal=True),
    Setting("remote.log.manager.thread.pool.size", INT, 2, at_least(1)),
    Setting("remote.log.metadata.custom.metadata.max.bytes", INT, 128, at_least(0), importance=LOW),
    Setting("remote.log.metadata.manager.class.name", STRING,
            "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager",
            NotEmpty()),
    Setting("remote.log.metadata.manager.class.path", STRING, None),
    Setting("remote.log.metadata.manager.impl.prefix", STRING, "rlmm.config.", NotEmpty()),
    Setting("remote.log.metadata.manager.listener.name", STRING, None, NotEmpty()),
    Setting("remote.log.reader.max.pending.tasks", INT, 100, at_least(1)),
    Setting("remote.log.reader.threads", INT, 10, at_least(1), CLUSTER),
    Setting("remote.log.storage.manager.class.name", STRING, None, NotEmpty()),
    Setting("remote.log.storage.manager.class.path", STRING, None),
    Setting("remote.log.storage.manager.impl.prefix", STRING, "rsm.config.", NotEmpty()),
    Setting("remote.log.storage.system.enable", BOOLEAN, False),
)

_JAVA = (
    Setting("background.threads", INT, 10, at_least(1), CLUSTER, HIGH),
    Setting("client.quota.callback.class", CLASS, None, KnownClass(), importance=LOW),
    Setting("kafka.metrics.polling.interval.secs", INT, 10, at_least(1), importance=LOW),
    Setting("kafka.metrics.reporters", LIST, (), list_of(), importance=LOW),
    Setting("metric.reporters", LIST, ("org.apache.kafka.common.metrics.JmxReporter",), list_of(), CLUSTER,
            LOW),
    Setting("metrics.num.samples", INT, 2, at_least(1), importance=LOW),
    Setting("metrics.recording.level", STRING, "INFO", importance=LOW),
    Setting("metrics.sample.window.ms", LONG, 30000, at_least(1), importance=LOW),
    Setting("security.providers", STRING, None, importance=LOW),
    Setting("ssl.endpoint.identification.algorithm", STRING, "https", dynamic=PER_BROKER, importance=LOW),
    Setting("ssl.engine.factory.class", CLASS, None, KnownClass(), PER_BROKER, LOW),
    Setting("ssl.keymanager.algorithm", STRING, "SunX509", dynamic=PER_BROKER),
    Setting("ssl.protocol", STRING, "TLSv1.3", dynamic=PER_BROKER),
    Setting("ssl.provider", STRING, None, dynamic=PER_BROKER),
    Setting("ssl.secure.random.implementation", STRING, None, dynamic=PER_BROKER, importance=LOW),
    Setting("ssl.trustmanager.algorithm", STRING, "PKIX", dynamic=PER_BROKER),
)

_COORDINATOR_THREADS = (
    Setting("group.coordinator.append.linger.ms", INT, -1, at_least(-1)),
    Setting("group.coordinator.background.threads", INT, 2, at_least(1), importance=HIGH),
    Setting("group.coordinator.cached.buffer.max.bytes", INT, 1048588, at_least(524288), CLUSTER),
    Setting("group.coordinator.threads", INT, 4, at_least(1), importance=HIGH),
    Setting("group.share.persister.class.name", STRING,
            "org.apache.kafka.server.share.persister.DefaultStatePersister", internal=True),
    Setting("offsets.load.buffer.size", INT, 5242880, at_least(1), importance=HIGH),
    Setting("share.coordinator.append.linger.ms", INT, -1, at_least(-1)),
    Setting("share.coordinator.cached.buffer.max.bytes", INT, 1048588, at_least(524288), CLUSTER),
    Setting("share.coordinator.load.buffer.size", INT, 5242880, at_least(1), importance=HIGH),
    Setting("share.coordinator.threads", INT, 1, at_least(1)),
    Setting("transaction.state.log.load.buffer.size", INT, 5242880, at_least(1), importance=HIGH),
    Setting("transaction.two.phase.commit.enable", BOOLEAN, False, importance=LOW),
)

_AS_A_CLIENT = (
    Setting("sasl.client.callback.handler.class", CLASS, None, KnownClass()),
    Setting("sasl.kerberos.kinit.cmd", STRING, "/usr/bin/kinit", dynamic=PER_BROKER),
    Setting("sasl.kerberos.min.time.before.relogin", LONG, 60000, dynamic=PER_BROKER),
    Setting("sasl.kerberos.principal.to.local.rules", LIST, ("DEFAULT",), list_of(), PER_BROKER),
    Setting("sasl.kerberos.service.name", STRING, None, dynamic=PER_BROKER),
    Setting("sasl.kerberos.ticket.renew.jitter", DOUBLE, 0.05, dynamic=PER_BROKER),
    Setting("sasl.kerberos.ticket.renew.window.factor", DOUBLE, 0.8, dynamic=PER_BROKER),
    Setting("sasl.login.callback.handler.class", CLASS, None, KnownClass()),
    Setting("sasl.login.class", CLASS, None, KnownClass()),
    Setting("sasl.login.connect.timeout.ms", INT, None, importance=LOW),
    Setting("sasl.login.read.timeout.ms", INT, None, importance=LOW),
    Setting("sasl.login.refresh.buffer.seconds", SHORT, 300, dynamic=PER_BROKER),
    Setting("sasl.login.refresh.min.period.seconds", SHORT, 60, dynamic=PER_BROKER),
    Setting("sasl.login.refresh.window.factor", DOUBLE, 0.8, dynamic=PER_BROKER),
    Setting("sasl.login.refresh.window.jitter", DOUBLE, 0.05, dynamic=PER_BROKER),
    Setting("sasl.login.retry.backoff.max.ms", LONG, 10000, importance=LOW),
    Setting("sasl.login.retry.backoff.ms", LONG, 100, importance=LOW),
    Setting("sasl.mechanism.controller.protocol", STRING, "GSSAPI", importance=HIGH),
    Setting("sasl.mechanism.inter.broker.protocol", STRING, "GSSAPI", dynamic=PER_BROKER),
    Setting("sasl.oauthbearer.assertion.algorithm", STRING, "RS256", one_of_any_case("ES256", "RS256")),
    Setting("sasl.oauthbearer.assertion.claim.aud", STRING, None),
    Setting("sasl.oauthbearer.assertion.claim.exp.seconds", INT, 300, between(0, 86400), importance=LOW),
    Setting("sasl.oauthbearer.assertion.claim.iss", STRING, None),
    Setting("sasl.oauthbearer.assertion.claim.jti.include", BOOLEAN, False),
    Setting("sasl.oauthbearer.assertion.claim.nbf.seconds", INT, 60, between(0, 3600), importance=LOW),
    Setting("sasl.oauthbearer.assertion.claim.sub", STRING, None),
    Setting("sasl.oauthbearer.assertion.file", STRING, None),
    Setting("sasl.oauthbearer.assertion.private.key.file", STRING, None),
    Setting("sasl.oauthbearer.assertion.private.key.passphrase", PASSWORD, None),
    Setting("sasl.oauthbearer.assertion.template.file", STRING, None),
    Setting("sasl.oauthbearer.client.credentials.client.id", STRING, None),
    Setting("sasl.oauthbearer.client.credentials.client.secret", PASSWORD, None),
    Setting("sasl.oauthbearer.jwt.retriever.class", CLASS,
            "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
            KnownClass(("org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",))),
    Setting("sasl.oauthbearer.jwt.validator.class", CLASS,
            "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
            KnownClass(("org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",))),
    Setting("sasl.oauthbearer.scope", STRING, None),
    Setting("sasl.oauthbearer.token.endpoint.url", STRING, None),
)

_PLUGINS = (
    Setting("alter.config.policy.class.name", CLASS, None, KnownClass(), importance=LOW),
    Setting("create.topic.policy.class.name", CLASS, None, KnownClass(), importance=LOW),
    Setting("group.share.assignors", LIST, ("simple",), Assignors(("simple",), exactly=1)),
    Setting("principal.builder.class", CLASS,
            "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
            KnownClass(("org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",)),
            PER_BROKER),
    Setting("sasl.server.callback.handler.class", CLASS, None, KnownClass((
                "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler",))),
)

_WAITING = (
    Setting("delete.records.purgatory.purge.interval.requests", INT, 1),
    Setting("producer.purgatory.purge.interval.requests", INT, 1000),
    Setting("queued.max.requests", INT, 500, at_least(1), importance=HIGH),
    Setting("share.fetch.purgatory.purge.interval.requests", INT, 1000),
)

_COORDINATOR_RECORDS = (
    Setting("group.share.initialize.retry.interval.ms", INT, 30000, at_least(1), importance=LOW,
            internal=True),
    Setting("offsets.topic.compression.codec", INT, 0, importance=HIGH),
    Setting("share.coordinator.cold.partition.snapshot.interval.ms", INT, 300000, at_least(1),
            importance=LOW, internal=True),
    Setting("share.coordinator.state.topic.compression.codec", INT, 0, importance=HIGH),
)

_TIERED_TOPICS = (
    Setting("local.retention.bytes", LONG, -2, at_least(-2)),
    Setting("local.retention.ms", LONG, -2, at_least(-2)),
    Setting("remote.log.copy.disable", BOOLEAN, False),
    Setting("remote.log.delete.on.disable", BOOLEAN, False),
)

INERT_GROUPS = (
    InertGroup("Controllers", _CONTROLLERS,
               "kbroker runs on one host and has no controller quorum and no cluster metadata log."),
    InertGroup("Replication between brokers", _REPLICATION,
               "kbroker fetches nothing from other brokers; local replicas are written from the leader's files."),
    InertGroup("Tiered storage", _TIERED_STORAGE,
               "there is no remote tier; records are only in log.dirs."),
    InertGroup("Java runtime", _JAVA,
               "it concerns the Java virtual machine, its thread pools or its plugins."),
    InertGroup("Coordinator threads", _COORDINATOR_THREADS,
               "control is a single process that reads its internal topics and writes each batch immediately."),
    InertGroup("The broker as a client", _AS_A_CLIENT,
               "the broker authenticates clients and never logs in itself; Kerberos is not supported."),
    InertGroup("Plug-ins", _PLUGINS,
               "kbroker loads no Java classes and always uses the rules of Kafka's own; others are refused."),
    InertGroup("Waiting requests", _WAITING,
               "no queue between threads needs a bound, since control has at most one request of each connection; "
               "completed operations leave their lists at once."),
    InertGroup("Records of coordinators", _COORDINATOR_RECORDS,
               "control writes batches of few records without compression, initializes share partitions when they "
               "are first fetched, and writes the snapshots of all of them before it prunes their topic."),
)
INERT_TOPIC_GROUPS = (
    InertGroup("Tiered storage of topics", _TIERED_TOPICS,
               "there is no remote tier, so local retention is retention.bytes and retention.ms."),
)
# fmt: on

INERT_REASON = {row.name: group.reason for group in INERT_GROUPS for row in group.rows}
"""Reasons why settings of the broker have no effect, by name."""
INERT_TOPIC_REASON = {row.name: group.reason for group in INERT_TOPIC_GROUPS for row in group.rows}
