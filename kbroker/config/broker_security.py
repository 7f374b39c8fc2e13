"""Broker settings: TLS, SASL, authorization. Most can be set per listener:
listener.name.NAME.KEY."""

from kbroker.config.checks import KnownClass, at_least, list_of, one_of
from kbroker.config.setting import (
    BOOLEAN,
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
            doc="Empty allows everything. The class name of Kafka's StandardAuthorizer turns on kbroker's own "
                "authorizer, which has the same rules."),
    Setting("config.providers", LIST, (), list_of(), CLUSTER, LOW,
            doc="Names of config providers, so that server.properties need not hold secrets: settings refer to "
                "values as ${file:PATH:KEY}, ${directory:PATH:FILE} or ${env:NAME}. config.providers.NAME.class is "
                "Kafka's FileConfigProvider, DirectoryConfigProvider or EnvVarConfigProvider; "
                "config.providers.NAME.param.allowed.paths or .allowlist.pattern limits what it may read. Values "
                "are read at the start; if one does not exist, the broker does not start."),
    Setting("super.users", STRING, "",
            doc="Principals that may do everything, separated by semicolons: User:admin;User:ops."),
    Setting("allow.everyone.if.no.acl.found", BOOLEAN, False,
            doc="Allow an operation on a resource that no ACL names."),
    Setting("kbroker.audit.log.dir", STRING, "",
            doc="Folder of the audit log. Its JSON lines record who did what from where and whether it was "
                "allowed: all logins, changes and refusals, and samples of other requests (`kbroker docs security`). "
                "Empty turns it off."),
    Setting("kbroker.audit.log.max.bytes", LONG, 104857600, at_least(65536), importance=LOW,
            doc="Size at which a new file of the audit log begins."),
    Setting("kbroker.audit.log.max.files", INT, 10, at_least(1), importance=LOW,
            doc="Number of audit log files to keep, including the current one."),
    Setting("kbroker.audit.sample.per.second", INT, 10, at_least(0), importance=LOW,
            doc="Connections that each network process samples a second for the audit log, among those that have "
                "sent or received bytes. 0 samples none."),
    Setting("kbroker.login.attempts.user.burst", INT, 10, at_least(1), importance=LOW,
            doc="Passwords of one user that one address may try at once before further attempts wait; a correct "
                "password does not count. The addresses of an IPv6 network (/64) count as one."),
    Setting("kbroker.login.attempts.user.per.second", INT, 1, at_least(0), importance=LOW,
            doc="Passwords of one user that one address may try a second after that burst. 0: no limit."),
    Setting("kbroker.login.attempts.address.burst", INT, 50, at_least(1), importance=LOW,
            doc="As kbroker.login.attempts.user.burst, but for all users of one address together."),
    Setting("kbroker.login.attempts.address.per.second", INT, 5, at_least(0), importance=LOW,
            doc="As kbroker.login.attempts.user.per.second, but for all users of one address together."),
    Setting("sasl.enabled.mechanisms", LIST, ("GSSAPI",), list_of(), PER_BROKER,
            doc="SASL mechanisms that a listener offers. kbroker supports PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and "
                "OAUTHBEARER; for SASL listeners you must change the default."),
    Setting("sasl.jaas.config", PASSWORD, None, dynamic=PER_BROKER,
            doc="Login module line with the users of a mechanism, set as "
                "listener.name.NAME.MECHANISM.sasl.jaas.config."),
    Setting("sasl.server.max.receive.size", INT, 524288,
            doc="Largest SASL message accepted before a connection is authenticated."),
    Setting("connections.max.reauth.ms", LONG, 0,
            doc="Maximum lifetime of a SASL session, after which the client must authenticate again; 0: no limit."),
    Setting("sasl.oauthbearer.jwks.endpoint.url", STRING, None,
            doc="Source of the keys that verify tokens: an https or file URL."),
    Setting("sasl.oauthbearer.jwks.endpoint.refresh.ms", LONG, 3600000, importance=LOW,
            doc="How long keys are cached."),
    Setting("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", LONG, 100, importance=LOW,
            doc="First pause before the keys are fetched again after a failure."),
    Setting("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", LONG, 10000, importance=LOW,
            doc="Maximum pause before the keys are fetched again after a failure."),
    Setting("sasl.oauthbearer.expected.audience", LIST, (), list_of(), importance=HIGH,
            doc="A token must name one of these audiences; empty accepts any."),
    Setting("sasl.oauthbearer.expected.issuer", STRING, None, importance=HIGH,
            doc="A token must be issued by this issuer; unset accepts any."),
    Setting("sasl.oauthbearer.clock.skew.seconds", INT, 30, importance=LOW,
            doc="Allowed difference between the clocks of the broker and the issuer."),
    Setting("sasl.oauthbearer.scope.claim.name", STRING, "scope", importance=LOW,
            doc="Claim of a token that holds its scopes."),
    Setting("sasl.oauthbearer.sub.claim.name", STRING, "sub", importance=LOW,
            doc="Claim of a token that holds the principal's name."),
    Setting("delegation.token.secret.key", PASSWORD, None,
            doc="Secret for the HMACs of delegation tokens. Unset: no delegation tokens. A new secret invalidates "
                "all existing tokens."),
    Setting("delegation.token.max.lifetime.ms", LONG, 604800000, at_least(1),
            doc="Maximum lifetime of a delegation token, including renewals."),
    Setting("delegation.token.expiry.time.ms", LONG, 86400000, at_least(1),
            doc="Time after which a delegation token expires unless it is renewed, and the maximum time of one "
                "renewal."),
    Setting("delegation.token.expiry.check.interval.ms", LONG, 3600000, at_least(1), importance=LOW,
            doc="How often expired delegation tokens are removed. Logins with an expired token are refused even "
                "before that."),
    Setting("ssl.client.auth", STRING, "none", one_of("required", "requested", "none"), PER_BROKER,
            doc="Whether clients must (required), may (requested) or need not (none) present a certificate. On "
                "`SASL_SSL` only `listener.name.NAME.ssl.client.auth` counts, as in Kafka."),
    Setting("ssl.keystore.type", STRING, "JKS", dynamic=PER_BROKER,
            doc="Format of the key store: PEM or PKCS12. A Java key store (JKS) is refused, and the error message "
                "shows the command that converts it. A replaced file takes effect within seconds, for new "
                "connections."),
    Setting("ssl.keystore.location", STRING, None, dynamic=PER_BROKER,
            doc="File with the broker's key and certificate chain. A PKCS12 store may have up to 64 keys with "
                "their chains: clients get the certificate for the server name that they send (SNI), or the "
                "first."),
    Setting("ssl.keystore.password", PASSWORD, None, dynamic=PER_BROKER,
            doc="Password of the key store file."),
    Setting("ssl.keystore.key", PASSWORD, None, dynamic=PER_BROKER,
            doc="Private key as PEM text, instead of a file."),
    Setting("ssl.keystore.certificate.chain", PASSWORD, None, dynamic=PER_BROKER,
            doc="Certificate chain as PEM text, instead of a file."),
    Setting("ssl.key.password", PASSWORD, None, dynamic=PER_BROKER,
            doc="Password of the private key."),
    Setting("ssl.truststore.type", STRING, "JKS", dynamic=PER_BROKER,
            doc="Format of the trust store: PEM or PKCS12."),
    Setting("ssl.truststore.location", STRING, None, dynamic=PER_BROKER,
            doc="File with the certificates that client certificates are checked against."),
    Setting("ssl.truststore.password", PASSWORD, None, dynamic=PER_BROKER,
            doc="Password of the trust store file."),
    Setting("ssl.truststore.certificates", PASSWORD, None, dynamic=PER_BROKER,
            doc="Trusted certificates as PEM text, instead of a file."),
    Setting("ssl.enabled.protocols", LIST, ("TLSv1.2", "TLSv1.3",), list_of(), PER_BROKER,
            doc="TLS versions offered."),
    Setting("ssl.cipher.suites", LIST, (), list_of(), PER_BROKER,
            doc="Cipher suites offered, by their RFC names; empty: those with forward secrecy and without SHA-1. "
                "Name either all suites of TLS 1.3 or none of them. A TLS version of which you name no suite is "
                "not offered."),
    Setting("ssl.principal.mapping.rules", STRING, "DEFAULT", importance=LOW,
            doc="Rules that turn the subject of a client certificate into a principal name: "
                "RULE:pattern/replacement/[LU], or DEFAULT, the whole subject."),
    Setting("ssl.allow.dn.changes", BOOLEAN, False, importance=LOW,
            doc="Allow a new key store whose certificates have different subjects. With ssl.allow.san.changes, too, "
                "their number may change."),
    Setting("ssl.allow.san.changes", BOOLEAN, False, importance=LOW,
            doc="Allow a new key store whose certificates lack alternative names of the previous ones."),
)
# fmt: on
