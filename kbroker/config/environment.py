"""Settings in environment variables, as Apache Kafka's container images take them (KIP-975).

`KAFKA_LOG_RETENTION_MS` is `log.retention.ms`. After the prefix `_` is a dot, `__` an underscore
and `___` a dash. Some variables name files of TLS keys instead, as in those images.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from kbroker.config.properties import is_utf8
from kbroker.config.setting import ConfigError

PREFIX = "KAFKA_"
SECRETS = Path("/etc/kafka/secrets")
STORES = {  # variables with the name of a file in SECRETS: the setting that is its path
    "KAFKA_SSL_KEYSTORE_FILENAME": "ssl.keystore.location",
    "KAFKA_SSL_TRUSTSTORE_FILENAME": "ssl.truststore.location",
}
PASSWORDS = {  # the same: the setting that is its content
    "KAFKA_SSL_KEY_CREDENTIALS": "ssl.key.password",
    "KAFKA_SSL_KEYSTORE_CREDENTIALS": "ssl.keystore.password",
    "KAFKA_SSL_TRUSTSTORE_CREDENTIALS": "ssl.truststore.password",
}

# Variables of Kafka's scripts, images and JVM; none of them is a setting of the broker.
NO_SETTINGS = frozenset(
    {
        "KAFKA_VERSION",
        "KAFKA_HEAP_OPTS",
        "KAFKA_OPTS",
        "KAFKA_GC_LOG_OPTS",
        "KAFKA_JVM_PERFORMANCE_OPTS",
        "KAFKA_JMX_OPTS",
        "KAFKA_JMX_PORT",
        "KAFKA_JMX_HOSTNAME",
        "KAFKA_LOG4J_OPTS",
        "KAFKA_LOG4J_LOGGERS",
        "KAFKA_LOG4J_ROOT_LOGLEVEL",
        "KAFKA_TOOLS_LOG4J_LOGLEVEL",
    }
)


def setting_of(variable: str) -> str | None:
    """The setting that a variable names, or None."""
    if (
        variable in NO_SETTINGS
        or variable in STORES
        or variable in PASSWORDS
        or not variable.startswith(PREFIX)
        or variable == PREFIX
    ):
        return None
    words = variable.removeprefix(PREFIX).lower()
    return words.replace("___", "-").replace("__", "\0").replace("_", ".").replace("\0", "_")


def settings(environment: Mapping[str, str], secrets: Path = SECRETS) -> dict[str, str]:
    """The settings of all variables, by name. Raises ConfigError for a value that is not UTF-8, and
    if a file cannot be read."""
    found = {}
    for variable, value in environment.items():
        if (name := setting_of(variable)) is not None:
            if not is_utf8(value):
                raise ConfigError(f"{variable}: not UTF-8")
            found[name] = value
    for variable, name in STORES.items():
        if file := environment.get(variable):
            found[name] = str(secrets / file)
    for variable, name in PASSWORDS.items():
        if file := environment.get(variable):
            found[name] = _content(variable, secrets / file)
    return found


def _content(variable: str, file: Path) -> str:
    try:
        return file.read_text().rstrip("\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text"
        raise ConfigError(f"{variable}: cannot read {file}: {reason}") from error


def over(file: Mapping[str, str], environment: Mapping[str, str], secrets: Path = SECRETS) -> dict[str, str]:
    """A file's settings with those of the environment over them.

    Listeners of the environment replace the file's and the addresses that the file advertises for
    them: a file's `advertised.listeners` names listeners that are gone. If the environment only
    advertises listeners, and the file has not all of them, the broker listens on their ports on all
    addresses."""
    found = settings(environment, secrets)
    kept = dict(file)
    advertised = found.get("advertised.listeners", "")
    if "listeners" not in found and not _names(advertised) <= _names(kept.get("listeners", "PLAINTEXT://")):
        found["listeners"] = re.sub(r"://[^,]*:(?=\d)", "://0.0.0.0:", advertised)
    if "listeners" in found:
        kept.pop("advertised.listeners", None)
    return kept | found


def _names(listeners: str) -> set[str]:
    return {one.partition("://")[0].strip().upper() for one in listeners.split(",") if one.strip()}
