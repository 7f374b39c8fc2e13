"""Which level and which mode a subject has: its own, its context's, or that of all."""

import pytest

from kbroker.http.registry.failure import Failure
from kbroker.http.registry.levels import check_writable, config_of, level_of, mode_of, normalizes
from kbroker.http.registry.state import State

BLUE = ":.blue:"
SUBJECT = ":.blue:one"


@pytest.fixture
def state() -> State:
    return State()


def test_the_most_specific_level_counts(state: State) -> None:
    assert level_of(state, SUBJECT) == "BACKWARD"
    for place, level in ((None, "NONE"), (BLUE, "FORWARD"), (SUBJECT, "FULL")):
        state.levels[place] = {"compatibilityLevel": level}
        assert level_of(state, SUBJECT) == level
    assert level_of(state, ":.blue:two") == "FORWARD"
    assert level_of(state, "one") == "NONE"


def test_settings_that_a_subject_lacks_are_inherited(state: State) -> None:
    state.levels[None] = {"normalize": True}
    state.levels[SUBJECT] = {"compatibilityLevel": "FULL"}
    assert normalizes(state, SUBJECT)
    assert config_of(state, SUBJECT, True) == {"compatibilityLevel": "FULL"}
    assert config_of(state, "one", True) == {"compatibilityLevel": "BACKWARD", "normalize": True}
    assert config_of(state, None, False) == {"compatibilityLevel": "BACKWARD", "normalize": True}
    with pytest.raises(Failure):
        config_of(state, "one", False)


def test_the_most_specific_mode_counts(state: State) -> None:
    assert mode_of(state, SUBJECT) == "READWRITE"
    for place, mode in ((None, "IMPORT"), (BLUE, "READONLY"), (SUBJECT, "READWRITE")):
        state.modes[place] = mode
        assert mode_of(state, SUBJECT) == mode
    assert mode_of(state, ":.blue:two") == "READONLY"
    assert mode_of(state, "one") == mode_of(state, None) == "IMPORT"
    assert mode_of(state, SUBJECT, default_to_global=False) == "READWRITE"
    with pytest.raises(Failure):
        mode_of(state, "one", default_to_global=False)


def test_read_only_for_all_overrides_every_other_mode(state: State) -> None:
    state.modes |= {SUBJECT: "READWRITE", None: "READONLY_OVERRIDE"}
    assert mode_of(state, SUBJECT) == mode_of(state, None) == "READONLY_OVERRIDE"
    with pytest.raises(Failure):
        check_writable(state, SUBJECT)


@pytest.mark.parametrize("mode", ["READONLY", "READONLY_OVERRIDE"])
def test_a_read_only_subject_is_not_written(state: State, mode: str) -> None:
    check_writable(state, SUBJECT)
    state.modes[SUBJECT] = mode
    with pytest.raises(Failure):
        check_writable(state, SUBJECT)
    check_writable(state, "one")
    state.modes[SUBJECT] = "IMPORT"
    check_writable(state, SUBJECT)
