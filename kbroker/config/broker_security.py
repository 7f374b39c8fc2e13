"""Broker settings: TLS, SASL, authorization. Most can be set per listener:
listener.name.NAME.KEY."""

from kbroker.config.checks import KnownClass, at_least, list_of, one_of
from kbroker.config.setting import (
    BOOLEAN,
    CLASS,
    CLUSTER,
    HIGH,
    INT,
    LIST,
    LONG,
    LOW,
    PASSWORD,
    PER_BROKER,
    STRING,
    Setting,
)

# fmt: off
SECURITY = (
    Setting("authorizer.class.name", STRING, "",
            KnownClass(("org.apache.kafka.metadata.authorizer.StandardAuthorizer",)), importance=LOW,
            doc="Empty allows everything; Kafka's StandardAuthorizer name turns on kbroker's own "
                "authorizer with the same rules."),
    Setting("config.providers", LIST, (), list_of(), CLUSTER, LOW,
            doc="Names of providers of values that settings refer to, so that server.properties holds no secret: "
                "${file:PATH:KEY}, ${directory:PATH:FILE}, ${env:NAME}. config.providers.NAME.class is Kafka's File-, "
                "Directory- or EnvVarConfigProvider, config.providers.NAME.param.allowed.paths or .allowlist.pattern "
                "what it may read. Read at the start; a reference to nothing refuses it."),
    Setting("super.users", STRING, "",
            doc="Principals that may do everything, separated by semicolons: User:admin;User:ops."),
    Setting("allow.everyone.if.no.acl.found", BOOLEAN, False,
            doc="Allow an operation on a resource that no ACL names."),
    Setting("kbroker.audit.log.dir", STRING, "",
            doc="Folder of the audit log: JSON lines of who did what from where and whether it was allowed, for all "
                "logins, changes and refusals, and for samples of other requests (docs/security.md). Empty: none."),
    Setting("kbroker.audit.log.max.bytes", LONG, 104857600, at_least(65536), importance=LOW,
            doc="Size from which on a new file of the audit log begins."),
    Setting("kbroker.audit.log.max.files", INT, 10, at_least(1), importance=LOW,
            doc="Files of the audit log that are kept, the present one included."),
    Setting("kbroker.audit.sample.per.second", INT, 10, at_least(0), importance=LOW,
            doc="Connections that each network process samples a second for the audit log, of those that have moved "
                "bytes. 0 samples none."),
    Setting("kbroker.login.attempts.user.burst", INT, 10, at_least(1), importance=LOW,
            doc="Passwords of one user that one address may try at once, before attempts wait for their turn; the "
                "right one gives its attempt back."),
    Setting("kbroker.login.attempts.user.per.second", INT, 1, at_least(0), importance=LOW,
            doc="Passwords of one user that one address may try a second from then on. 0 is without limit."),
    Setting("kbroker.login.attempts.address.burst", INT, 50, at_least(1), importance=LOW,
            doc="As kbroker.login.attempts.user.burst, of one address for all users."),
    Setting("kbroker.login.attempts.address.per.second", INT, 5, at_least(0), importance=LOW,
            doc="As kbroker.login.attempts.user.per.second, of one address for all users."),
    Setting("principal.builder.class", CLASS,
            "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
            KnownClass(("org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",)),
            PER_BROKER,
            doc="How the principal of a connection is built; only the default rules are available."),
    Setting("sasl.enabled.mechanisms", LIST, ("GSSAPI",), list_of(), PER_BROKER,
            doc="SASL mechanisms a listener offers. kbroker has PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER; "
                "the default must be changed for SASL listeners."),
    Setting("sasl.jaas.config", PASSWORD, None, dynamic=PER_BROKER,
            doc="Login module line with the users of a mechanism, as "
                "listener.name.NAME.MECHANISM.sasl.jaas.config."),
    Setting("sasl.server.callback.handler.class", CLASS, None, KnownClass((
                "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler",)),
            doc="Java class that checks credentials. kbroker loads no Java code, so it must be unset."),
    Setting("sasl.server.max.receive.size", INT, 524288,
            doc="Largest SASL message accepted before a connection is authenticated."),
    Setting("connections.max.reauth.ms", LONG, 0,
            doc="Longest life of a SASL session before the client must authenticate again; 0 is without "
                "limit."),
    Setting("sasl.oauthbearer.jwks.endpoint.url", STRING, None,
            doc="Where the keys that sign tokens are read from: an https or file address."),
    Setting("sasl.oauthbearer.jwks.endpoint.refresh.ms", LONG, 3600000, importance=LOW,
            doc="How long keys are cached."),
    Setting("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", LONG, 100, importance=LOW,
            doc="First pause before the keys are fetched again after a failure."),
    Setting("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", LONG, 10000, importance=LOW,
            doc="Longest such pause."),
    Setting("sasl.oauthbearer.expected.audience", LIST, (), list_of(), importance=HIGH,
            doc="A token must name one of these audiences; empty accepts any."),
    Setting("sasl.oauthbearer.expected.issuer", STRING, None, importance=HIGH,
            doc="A token must be issued by this issuer; unset accepts any."),
    Setting("sasl.oauthbearer.clock.skew.seconds", INT, 30, importance=LOW,
            doc="Difference allowed between our clock and the issuer's."),
    Setting("sasl.oauthbearer.scope.claim.name", STRING, "scope", importance=LOW,
            doc="Claim of a token that holds its scopes."),
    Setting("sasl.oauthbearer.sub.claim.name", STRING, "sub", importance=LOW,
            doc="Claim of a token that holds the principal's name."),
    Setting("delegation.token.secret.key", PASSWORD, None,
            doc="Secret that the HMACs of delegation tokens are made with. Unset offers no tokens; another one ends "
                "all that there are."),
    Setting("delegation.token.max.lifetime.ms", LONG, 604800000, at_least(1),
            doc="Longest life of a delegation token, renewals included."),
    Setting("delegation.token.expiry.time.ms", LONG, 86400000, at_least(1),
            doc="Time after which a delegation token expires unless it is renewed; longest renewal."),
    Setting("delegation.token.expiry.check.interval.ms", LONG, 3600000, at_least(1), importance=LOW,
            doc="How often expired delegation tokens are removed. No client logs in by an expired one before that, "
                "either."),
    Setting("ssl.client.auth", STRING, "none", one_of("required", "requested", "none"), PER_BROKER,
            doc="Whether clients must (required), may (requested) or need not (none) show a certificate."),
    Setting("ssl.keystore.type", STRING, "JKS", dynamic=PER_BROKER,
            doc="Format of the key store: PEM or PKCS12. A store of Java (JKS) is refused with the command that "
                "converts it. A file that is replaced is taken within seconds, for new connections."),
    Setting("ssl.keystore.location", STRING, None, dynamic=PER_BROKER,
            doc="File with the broker's key and certificate chain."),
    Setting("ssl.keystore.password", PASSWORD, None, dynamic=PER_BROKER,
            doc="Password of the key store file."),
    Setting("ssl.keystore.key", PASSWORD, None, dynamic=PER_BROKER,
            doc="Private key as PEM text, in place of a file."),
    Setting("ssl.keystore.certificate.chain", PASSWORD, None, dynamic=PER_BROKER,
            doc="Certificate chain as PEM text, in place of a file."),
    Setting("ssl.key.password", PASSWORD, None, dynamic=PER_BROKER,
            doc="Password of the private key."),
    Setting("ssl.truststore.type", STRING, "JKS", dynamic=PER_BROKER,
            doc="Format of the trust store: PEM or PKCS12."),
    Setting("ssl.truststore.location", STRING, None, dynamic=PER_BROKER,
            doc="File with the certificates that client certificates are checked against."),
    Setting("ssl.truststore.password", PASSWORD, None, dynamic=PER_BROKER,
            doc="Password of the trust store file."),
    Setting("ssl.truststore.certificates", PASSWORD, None, dynamic=PER_BROKER,
            doc="Trusted certificates as PEM text, in place of a file."),
    Setting("ssl.enabled.protocols", LIST, ("TLSv1.2", "TLSv1.3",), list_of(), PER_BROKER,
            doc="TLS versions offered."),
    Setting("ssl.protocol", STRING, "TLSv1.3", dynamic=PER_BROKER,
            doc="Newest TLS version to use when ssl.enabled.protocols leaves a choice."),
    Setting("ssl.cipher.suites", LIST, (), list_of(), PER_BROKER,
            doc="Cipher suites offered, by their names in RFCs; empty takes those with forward secrecy and without "
                "SHA-1. Of TLS 1.3 all can be named or none; a TLS version of which none is named is not offered."),
    Setting("ssl.principal.mapping.rules", STRING, "DEFAULT", importance=LOW,
            doc="Rules that turn the subject of a client certificate into a principal name: "
                "RULE:pattern/replacement/[LU], or DEFAULT, the whole subject."),
    Setting("ssl.allow.dn.changes", BOOLEAN, False, importance=LOW,
            doc="Allow a new key store whose certificate names another subject."),
    Setting("ssl.allow.san.changes", BOOLEAN, False, importance=LOW,
            doc="Allow a new key store whose certificate lacks an alternative name of the one before."),
)
# fmt: on
