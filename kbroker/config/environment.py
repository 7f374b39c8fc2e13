"""Settings in environment variables, as Apache Kafka's container images take them (KIP-975).

`KAFKA_LOG_RETENTION_MS` is `log.retention.ms`. After the prefix `_` is a dot, `__` an underscore
and `___` a dash.
"""

from collections.abc import Mapping

PREFIX = "KAFKA_"

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
    if variable in NO_SETTINGS or not variable.startswith(PREFIX) or variable == PREFIX:
        return None
    words = variable.removeprefix(PREFIX).lower()
    return words.replace("___", "-").replace("__", "\0").replace("_", ".").replace("\0", "_")


def settings(environment: Mapping[str, str]) -> dict[str, str]:
    """The settings of all variables, by name."""
    named = ((setting_of(variable), value) for variable, value in environment.items())
    return {name: value for name, value in named if name is not None}


def over(file: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """A file's settings with those of the environment over them.

    Listeners of the environment replace the file's and the addresses that the file advertises for
    them: a file's `advertised.listeners` names listeners that are gone."""
    found = settings(environment)
    kept = dict(file)
    if "listeners" in found:
        kept.pop("advertised.listeners", None)
    return kept | found
