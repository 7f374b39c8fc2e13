"""Compatibility levels and modes of all subjects, of a context, of one subject."""

from typing import Any

from kbroker.http.registry.failure import (
    no_subject_level,
    no_subject_mode,
    operation_not_permitted,
    unprocessable,
)
from kbroker.http.registry.names import DEFAULT_CONTEXT, context_of, context_prefix
from kbroker.http.registry.state import State

DEFAULT_LEVEL = "BACKWARD"
DEFAULT_MODE = "READWRITE"
LEVELS = (
    "NONE",
    "BACKWARD",
    "FORWARD",
    "FULL",
    "BACKWARD_TRANSITIVE",
    "FORWARD_TRANSITIVE",
    "FULL_TRANSITIVE",
)
MODES = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT")
CONFIG_MEMBERS = (
    "alias",
    "normalize",
    "validateFields",
    "validateRules",
    "compatibilityGroup",
    "defaultMetadata",
    "overrideMetadata",
    "defaultRuleSet",
    "overrideRuleSet",
)


def level_name(given: Any) -> str:
    """A level in capitals. Raises Failure."""
    name = given.upper() if isinstance(given, str) else ""
    if name not in LEVELS:
        raise unprocessable(
            42203,
            "Invalid compatibility level. Valid values are none, backward, forward, full, backward_transitive, "
            "forward_transitive, and full_transitive",
        )
    return name


def mode_name(given: Any) -> str:
    """A mode in capitals. Raises Failure."""
    name = given.upper() if isinstance(given, str) else ""
    if name not in MODES:
        raise unprocessable(42204, f"Invalid mode. Valid values are {', '.join(MODES)}")
    return name


def _owners(subject: str) -> list[str | None]:
    """The owners of settings that apply to a subject, the most specific first."""
    context = context_of(subject)
    return [subject, *([context_prefix(context)] if context != DEFAULT_CONTEXT else []), None]


def config_of(state: State, subject: str | None, default_to_global: bool) -> dict[str, Any]:
    """The configuration of a subject, or the inherited one. Raises Failure."""
    if subject is None:
        return {"compatibilityLevel": DEFAULT_LEVEL, **state.levels.get(None, {})}
    if subject in state.levels:
        return dict(state.levels[subject])
    if not default_to_global:
        raise no_subject_level(subject)
    return inherited(state, subject)


def inherited(state: State, subject: str) -> dict[str, Any]:
    """The effective configuration of a subject."""
    found: dict[str, Any] = {"compatibilityLevel": DEFAULT_LEVEL}
    for owner in reversed(_owners(subject)):
        found |= state.levels.get(owner, {})
    return found


def level_of(state: State, subject: str) -> str:
    """The effective level of a subject."""
    return str(inherited(state, subject)["compatibilityLevel"])


def normalizes(state: State, subject: str) -> bool:
    """Whether the subject's settings ask for normalized schemas."""
    return bool(inherited(state, subject).get("normalize"))


def mode_of(state: State, subject: str | None, default_to_global: bool = True) -> str:
    """The mode of a subject, or the inherited one. Raises Failure."""
    if subject is not None and subject not in state.modes and not default_to_global:
        raise no_subject_mode(subject)
    if state.modes.get(None) == "READONLY_OVERRIDE":
        return "READONLY_OVERRIDE"
    for owner in _owners(subject) if subject is not None else [None]:
        if owner in state.modes:
            return state.modes[owner]
    return DEFAULT_MODE


def check_writable(state: State, subject: str) -> None:
    """Raises Failure in a mode without writes."""
    mode = mode_of(state, subject)
    if mode.startswith("READONLY"):
        raise operation_not_permitted(f"Subject {subject} is in read-only mode")
