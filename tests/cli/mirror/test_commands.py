"""The time without writes after which a source counts as stopped, by both of its names."""

import pytest

from kbroker.cli.failures import UsageFailed
from kbroker.cli.mirror.commands import IDLE_TIMEOUT_S, _quiet_s
from tests.cli.conftest import Shell


def test_the_former_name_has_the_same_effect() -> None:
    assert _quiet_s(None, None) == IDLE_TIMEOUT_S
    assert _quiet_s(5.0, None) == _quiet_s(None, 5.0) == 5.0
    with pytest.raises(UsageFailed, match="--quiet is the former name of --idle-timeout"):
        _quiet_s(5.0, 5.0)


@pytest.mark.parametrize("words", [("move", "--to"), ("import", "--from")])
def test_both_names_are_refused_beside_each_other(shell: Shell, words: tuple[str, str]) -> None:
    line = (*words, "127.0.0.1:1", "-b", "127.0.0.1:2", "--quiet", "5", "--idle-timeout", "5")
    assert "give one" in shell(*line, code=2).stderr
