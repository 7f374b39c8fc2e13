"""Fixed value sets of labels: a value's place in its tuple is its index in a row of slots."""

from kbroker.metrics import layout
from kbroker.protocol.api_keys import ApiKey
from kbroker.protocol.errors import ErrorCode

PHASES = (
    "total",
    "queue",
    "local",
    "append",
    "flush",
    "purgatory",
    "cold_read",
    "respond",
    "send",
)
STAGES = {
    "Produce": ("total", "queue", "append", "flush", "respond"),
    "Fetch": ("total", "queue", "local", "purgatory", "cold_read", "send"),
}
"""The phases that every request of an API is counted in, 0 included; total is the sum of the
others."""
OTHER_STAGES = ("total", "queue", "local", "send")


def _api_names() -> tuple[str, ...]:
    names = {key.value: key.title for key in ApiKey}
    return tuple(names.get(key, f"Unknown{key}") for key in range(layout.API_COUNT))


def _error_names() -> tuple[str, ...]:
    names = {code.value: code.name for code in ErrorCode}
    return tuple(names.get(index - 1, f"ERROR_{index - 1}") for index in range(layout.ERROR_COUNT))


VALUES: dict[str, tuple[str, ...]] = {
    "api": _api_names(),
    "version": tuple(str(version) for version in range(layout.VERSION_COUNT)),
    "error": _error_names(),
    "phase": PHASES,
    "operation": ("Produce", "Fetch"),
    "role": ("control", "io", "network", "http", "cleaner"),
    "listener": tuple(str(number) for number in range(64)),
    "why": ("peer", "idle", "error", "limit", "stop", "memory"),
    "path": ("sendfile", "copy"),
    "confinement": ("capabilities", "landlock", "seccomp"),
    "reason": ("unusable_topic", "storage", "timeout", "offline", "replicas", "too_large", "other"),
    "quota": ("produce", "fetch", "request", "mutation"),
}
"""listener: place in the setting ``listeners``; shown by the listener's name."""
