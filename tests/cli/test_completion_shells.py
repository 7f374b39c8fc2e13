"""bash, zsh and fish complete a line after `kbroker --install-completion`, each in a home of its
own."""

import os
import pty
import re
import shutil
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from tests.cli.conftest import Shell
from tests.cli.typist import readable
from tests.peer.kbroker_node import ROOT

PATIENCE_S = 60
# What each shell offers for a line, one word a line.
BASH = """
source ~/.bash_completions/kbroker.sh
read -ra COMP_WORDS <<< "$LINE"
COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 ))
_kbroker_completion kbroker
printf '%s\\n' "${COMPREPLY[@]}"
"""
FISH = """complete -C "$LINE" """
SETTING, VALUE = "kbroker topics alter orders -c min.in", "min.insync.replicas="


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # the kbroker of this tree
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "ZDOTDIR"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def topic(home: Path, cli: Shell) -> str:
    """The cli's fixture names the broker in the environment."""
    name = f"c{uuid.uuid4().hex[:8]}-topic.of_orders"
    cli("topics", "create", name)
    return name


def install(shell: str) -> None:
    """Installs the completion from that shell."""
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell}")
    command = [shell, "-c", "kbroker --install-completion; true"]  # a last command would replace the shell
    shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE_S).stdout
    assert f"{shell} completion installed" in shown


def offered(shell: str, script: str, line: str) -> list[str]:
    """The words that a shell offers, without their explanations."""
    done = subprocess.run(
        [shell, "-c", script],
        env=os.environ | {"LINE": line},
        capture_output=True, text=True, check=False, timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.stderr == ""
    return [word.partition("\t")[0] for word in done.stdout.splitlines()]


@pytest.mark.parametrize(("program", "script"), [("bash", BASH), ("fish", FISH)])
def test_bash_and_fish_offer_topics(topic: str, program: str, script: str) -> None:
    install(program)
    assert offered(program, script, f"kbroker consume {topic[:9]}") == [topic]


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(("program", "script"), [("bash", BASH), ("fish", FISH)])
def test_bash_and_fish_offer_settings(program: str, script: str) -> None:
    install(program)
    assert offered(program, script, SETTING) == [VALUE]


@pytest.mark.usefixtures("home")
def test_fish_offers_no_line_of_an_explanation_as_a_word() -> None:
    install("fish")
    words = offered("fish", FISH, "kbroker topics alter orders -c ")
    assert len(words) > 20
    assert [word for word in words if not re.fullmatch(r"[a-z0-9.]+=", word)] == []


def typed(keys: bytes, until: bytes) -> bytes:
    """What an interactive zsh prints for these keys, the first of its session."""
    child, terminal = pty.fork()
    if child == 0:
        os.environ["TERM"] = "dumb"
        os.execvp("zsh", ["zsh", "-i"])
    shown, deadline = b"", time.monotonic() + PATIENCE_S
    os.write(terminal, b"bindkey -e; PS1=; unsetopt prompt_cr prompt_sp; echo be''gun\r")
    pending: bytes | None = keys
    while until not in shown and readable(terminal, deadline):
        try:
            shown += os.read(terminal, 4096)
        except OSError:  # as Linux reports that zsh has ended
            break
        if pending is not None and b"begun\r\n" in shown:
            os.write(terminal, pending)
            pending = None
    os.kill(child, 9)
    os.waitpid(child, 0)
    os.close(terminal)
    return shown


def completed_by_zsh(line: str, word: str) -> bool:
    """Whether the first Tab of a session completes a line with this word."""
    printed = f"is {line.rpartition(' ')[0]} {word}\r\n".encode()
    return printed in typed(f"{line}\t\x01echo i''s \r".encode(), printed)


def test_zsh_completes_topics(topic: str) -> None:
    install("zsh")
    assert completed_by_zsh(f"kbroker consume {topic[:9]}", topic)


@pytest.mark.usefixtures("home")
def test_zsh_completes_settings() -> None:
    install("zsh")
    assert completed_by_zsh(SETTING, VALUE)
