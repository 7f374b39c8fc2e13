"""The server.properties with which Apache Kafka starts on exported log dirs, as broker and
controller in one."""

from collections.abc import Mapping, Sequence
from typing import Final

from kbroker.config.broker import BrokerConfig
from kbroker.control.kraft.export import Exported

CONTROLLER: Final = "CONTROLLER"
FIRST_CONTROLLER_PORT: Final = 9093
ONE_REPLICA: Final = (
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "transaction.state.log.min.isr",
    "share.coordinator.state.topic.replication.factor",
    "share.coordinator.state.topic.min.isr",
)
DEFAULT_LISTENER: Final = "PLAINTEXT://127.0.0.1:9092"
_OTHERWISE: Final = ("broker.id", "log.dir", "controller.quorum.bootstrap.servers")
"""Names of the broker's file that contradict lines of ours."""
_ESCAPES: Final = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"})


def kafka_properties(
    exported: Exported, log_dirs: Sequence[str], node_id: int, given: Mapping[str, str] | None = None
) -> str:
    """given: the pairs of the broker's own server.properties; without them the listener is that of
    an example. Raises ConfigError."""
    listeners = _example() if given is None else _listeners(given)
    port = _free_port(listeners["listeners"])
    own = {
        "process.roles": "broker,controller",
        "node.id": str(node_id),
        "controller.quorum.voters": f"{node_id}@127.0.0.1:{port}",
        **listeners,
        "listeners": f"{listeners['listeners']},{CONTROLLER}://127.0.0.1:{port}",
        "controller.listener.names": CONTROLLER,
        "listener.security.protocol.map": f"{listeners['listener.security.protocol.map']},{CONTROLLER}:PLAINTEXT",
        "log.dirs": ",".join(log_dirs),
        "metadata.log.dir": str(exported.snapshot.parent.parent),
        **dict.fromkeys(ONE_REPLICA, "1"),
    }
    lines = ["# Apache Kafka on the log dirs of a kbroker: one node, broker and controller."]
    if given is None:
        lines += [
            "# Take over the listeners and further settings of the broker's server.properties (TLS, retention,",
            "# limits), but for those named kbroker.*; `kbroker export kraft --properties FILE` does so.",
        ]
    lines += [f"{name}={value}" for name, value in own.items()]
    left_out = {*own, *_OTHERWISE}
    if "inter.broker.listener.name" in own:
        left_out.add("security.inter.broker.protocol")  # Kafka refuses both
    kept = {
        name: value
        for name, value in (given or {}).items()
        if name not in left_out and not name.startswith("kbroker.")
    }
    lines += [f"{_escaped(name, ' :=')}={_escaped(value)}" for name, value in kept.items()]
    return "\n".join(lines)


def _example() -> dict[str, str]:
    return {
        "listeners": DEFAULT_LISTENER,
        "advertised.listeners": DEFAULT_LISTENER,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT",
    }


def _listeners(given: Mapping[str, str]) -> dict[str, str]:
    """Raises ConfigError for a file that kbroker refuses, too."""
    config, _ = BrokerConfig.load(given)
    shown = {"listeners": ",".join(map(str, config.listeners))}
    if given.get("advertised.listeners"):
        shown["advertised.listeners"] = ",".join(map(str, config.advertised_listeners))
    protocols = {each.listener: each.protocol.name for each in config.listeners}
    shown["listener.security.protocol.map"] = ",".join(f"{name}:{each}" for name, each in protocols.items())
    if config.inter_broker_listener not in protocols:  # which Kafka refuses, also of a single node
        shown["inter.broker.listener.name"] = config.listeners[0].listener
    return shown


def _free_port(listeners: str) -> int:
    used = {each.rpartition(":")[2] for each in listeners.split(",")}
    return next(port for port in range(FIRST_CONTROLLER_PORT, 1 << 16) if str(port) not in used)


def _escaped(text: str, more: str = "") -> str:
    """As a file of Java properties has it. more: characters that need a backslash."""
    escaped = "".join(f"\\{char}" if char in more else char for char in text.translate(_ESCAPES))
    return f"\\{escaped}" if escaped[:1] in (" ", "#", "!") else escaped
