"""Translates client settings with Java's or librdkafka's names for the two client libraries."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kbroker.cli.failures import UsageFailed
from kbroker.cli.input_files import open_bytes, unreadable
from kbroker.cli.kafka_options import OF_PROPERTY
from kbroker.config import properties
from kbroker.config.close_names import suggestion
from kbroker.config.setting import ConfigError

_JAAS_FIELD = re.compile(
    r"""(username|password)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|(\S+?))\s*(?=;|\s)"""
)
_JAAS_ESCAPE = re.compile(r"\\(.)")
_BY_TOKEN = re.compile(r"""\btokenauth\s*=\s*["']?true""", re.IGNORECASE)
_PEM_ONLY = ("ssl.truststore.type", "ssl.keystore.type")
_FILES = {
    "ssl.truststore.location",
    "ssl.keystore.location",
    "ssl.certificate.location",
    "ssl.key.location",
}

# Settings of Java's clients that librdkafka lacks and that no command needs: they are ignored.
_NO_EFFECT = frozenset(
    [
        "default.api.timeout.ms",
        "request.timeout.ms",
        "connections.max.idle.ms",
        "socket.connection.setup.timeout.max.ms",
        "send.buffer.bytes",
        "receive.buffer.bytes",
        "metric.reporters",
        "metrics.recording.level",
        "metrics.num.samples",
        "metrics.sample.window.ms",
        "auto.include.jmx.reporter",
        "interceptor.classes",
        "key.serializer",
        "value.serializer",
        "key.deserializer",
        "value.deserializer",
        "partition.assignment.strategy",
        "max.poll.records",
        "exclude.internal.topics",
        "fetch.max.wait.ms",
        "throw.on.fetch.stable.offset.unsupported",
        "buffer.memory",
        "max.block.ms",
        "max.request.size",
        "partitioner.class",
        "partitioner.ignore.keys",
        "partitioner.adaptive.partitioning.enable",
        "partitioner.availability.timeout.ms",
        "ssl.protocol",
        "ssl.enabled.protocols",
        "ssl.provider",
        "ssl.keymanager.algorithm",
        "ssl.trustmanager.algorithm",
        "ssl.secure.random.implementation",
    ]
)

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_KAFKA_PYTHON = {
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
    "client.id": "client_id",
}

_OFTEN_SET = frozenset(
    [
        *_NO_EFFECT,
        *_KAFKA_PYTHON,
        *_FILES,
        *_PEM_ONLY,
        "sasl.jaas.config",
        "sasl.mechanisms",
        "ssl.truststore.password",
        "ssl.keystore.password",
        "ssl.endpoint.identification.algorithm",
        "enable.ssl.certificate.verification",
        "bootstrap.servers",
        "group.id",
        "acks",
        "linger.ms",
        "batch.size",
        "compression.type",
        "enable.idempotence",
        "auto.offset.reset",
        "isolation.level",
    ]
)
"""Client settings that may be meant by a name with a typo."""


def reason_of_unknown(name: str) -> str:
    """The end of a message about a name that no client setting has."""
    from kbroker.cli.setting_names import known_names

    if name in known_names():
        return "; the file must have the settings of a client, not of a broker"
    return suggestion(name, _OFTEN_SET)


def read(path: Path) -> dict[str, str]:
    """Settings of a client.properties in librdkafka's names. Raises UsageFailed."""
    try:
        settings = properties.read(path)
    except ConfigError as error:
        raise UsageFailed(str(error)) from error
    found = to_librdkafka(settings)
    _check_files(settings)
    return found


def _check_files(settings: Mapping[str, str]) -> None:
    """OpenSSL's errors do not name the file that is missing. Raises UsageFailed."""
    for key in sorted(_FILES & settings.keys()):
        path = Path(settings[key])
        try:
            if not path.is_dir():  # of certificates
                open_bytes(path).close()
        except (UsageFailed, OSError) as error:
            reason = unreadable(path, error) if isinstance(error, OSError) else error
            raise UsageFailed(f"{key}: {reason}") from error


def to_librdkafka(settings: Mapping[str, str]) -> dict[str, str]:
    """Java's security settings translated, librdkafka's own left as they are. Raises
    UsageFailed."""
    found = {key: value for key, value in settings.items() if key not in _NO_EFFECT}
    if jaas := found.pop("sasl.jaas.config", None):
        if _BY_TOKEN.search(jaas):
            raise UsageFailed(
                "sasl.jaas.config: these commands cannot log in with a delegation token (tokenauth)"
            )
        found |= {
            f"sasl.{m[1]}": m[4] or _JAAS_ESCAPE.sub(r"\1", m[2] or m[3] or "")
            for m in _JAAS_FIELD.finditer(jaas + " ")
        }
        if "sasl.username" not in found:
            raise UsageFailed("sasl.jaas.config: expected a login module with username=... password=...")
    protocol = found.get("security.protocol", PROTOCOLS[0])
    if protocol.upper() not in PROTOCOLS:
        raise UsageFailed(f"security.protocol={protocol}: expected one of {', '.join(PROTOCOLS)}")
    if mechanism := found.pop("sasl.mechanisms", None):  # librdkafka's own name of it
        found["sasl.mechanism"] = mechanism
    for key in _PEM_ONLY:
        if found.pop(key, "PEM") != "PEM":
            raise UsageFailed(
                f"{key}: only PEM can be read here; `keytool` and `openssl` convert a JKS or PKCS12 store"
            )
    if trust := found.pop("ssl.truststore.location", None):
        found["ssl.ca.location"] = trust
    found.pop("ssl.truststore.password", None)
    if store := found.pop("ssl.keystore.location", None):
        found["ssl.certificate.location"] = found["ssl.key.location"] = store
    found.pop("ssl.keystore.password", None)
    if found.get("ssl.endpoint.identification.algorithm") == "":
        found["ssl.endpoint.identification.algorithm"] = "none"
    return found


def refuse_oauth(settings: Mapping[str, str]) -> None:
    """Raises UsageFailed for a login that kafka-python would try in vain until its timeout."""
    protocol = settings.get("security.protocol", "").upper()
    if protocol.startswith("SASL") and settings.get("sasl.mechanism") == "OAUTHBEARER":
        raise UsageFailed("sasl.mechanism=OAUTHBEARER: this command can log in with PLAIN and SCRAM only")


def to_kafka_python(settings: Mapping[str, str]) -> dict[str, Any]:
    """Translate librdkafka's security settings to arguments of kafka-python's clients. Raises
    OSError for a file that cannot be used."""
    found: dict[str, Any] = {
        ours: settings[key] for key, ours in _KAFKA_PYTHON.items() if settings.get(key) is not None
    }
    if "security_protocol" in found:
        found["security_protocol"] = found["security_protocol"].upper()
    if settings.get("ssl.endpoint.identification.algorithm") == "none":
        found["ssl_check_hostname"] = False
    if found.get("security_protocol", "").endswith("SSL"):
        from kbroker.cli.client_tls import context_of, needs_context

        if needs_context(settings):
            found["ssl_context"] = context_of(settings)
    return found


def to_java(settings: Mapping[str, str]) -> dict[str, str]:
    """Translate librdkafka's security settings to the names of Java's clients. Raises
    UsageFailed."""
    found = {key: value for key in ("security.protocol", "sasl.mechanism") if (value := settings.get(key))}
    if (user := settings.get("sasl.username")) is not None:
        kind = "plain.Plain" if found.get("sasl.mechanism") == "PLAIN" else "scram.Scram"
        quoted = [_quoted(text) for text in (user, settings.get("sasl.password", ""))]
        found["sasl.jaas.config"] = (
            f"org.apache.kafka.common.security.{kind}LoginModule required "
            f"username={quoted[0]} password={quoted[1]};"
        )
    if trust := settings.get("ssl.ca.location"):
        found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": trust}
    if store := settings.get("ssl.certificate.location"):
        if settings.get("ssl.key.location", store) != store:
            raise UsageFailed("Java's clients take certificate and key from one PEM file: put both into one")
        found |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": store}
        if password := settings.get("ssl.key.password"):
            found["ssl.key.password"] = password
    if settings.get("ssl.endpoint.identification.algorithm") == "none":
        found["ssl.endpoint.identification.algorithm"] = ""
    return found


def _quoted(text: str) -> str:
    """A value in a JAAS line. Escapes are JAAS's own."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def parse_pairs(option: str, pairs: list[str], lists: bool = False) -> dict[str, str]:
    """`key=value` arguments of an option. lists: the values of a key are joined. Raises
    UsageFailed, also for two values of a key: one of them would have no effect."""
    found: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise UsageFailed(f"{option} {pair!r}: expected key=value")
        key = key.strip()
        if lists and key in found:
            value = f"{found.pop(key)},{value}"
        if found.setdefault(key, value) != value:
            raise UsageFailed(f"{option} {key} has two values: give only one")
    return found


def client_settings(pairs: list[str]) -> dict[str, str]:
    """Settings of librdkafka from --property. Raises UsageFailed."""
    found = parse_pairs("--property", pairs)
    for name in sorted(OF_PROPERTY.keys() & found.keys()):
        raise UsageFailed(f"--property {name}: it sets the client; here it is {OF_PROPERTY[name]}")
    for name in ("bootstrap.servers", "metadata.broker.list"):  # librdkafka has both for the same
        if name in found:
            raise UsageFailed(f"--property {name}: name the broker by -b HOST:PORT")
    return found
