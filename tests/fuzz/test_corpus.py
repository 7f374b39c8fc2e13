"""The stored inputs of the search that is guided by coverage: each runs as its target allows, with
kernels in plain Python over checked memory."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.fuzz.guided import corpus
from tests.fuzz.guided.corpus import Input

ROOT = Path(__file__).parents[2]
MAX_BYTES = 1_000_000


def replayed(*words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "tests.fuzz.guided", *words]
    environment = {**os.environ, "KBROKER_NO_KERNELS": "1"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=280)


def test_every_stored_input_runs_as_its_target_allows() -> None:
    done = replayed("--replay")
    counts = {name: int(count) for name, count in re.findall(r"^(\S+): (\d+) inputs in", done.stdout, re.M)}
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-5000:]
    assert counts == {path.stem: len(corpus.read(path.stem)) for path in corpus.FOLDER.glob("*.txt")}
    assert all(counts.values()), "a target without inputs"


def test_a_replayed_failure_is_printed_with_the_input_that_repeats_it() -> None:
    """An encoded input goes back through the command line."""
    word = corpus.encode(b"\0\x12\0\3" + bytes(40))
    done = replayed("requests", "--input", word)
    assert (done.returncode, "requests: 1 inputs in" in done.stdout) == (0, True), done.stdout + done.stderr


def test_the_corpus_stays_small() -> None:
    assert sum(path.stat().st_size for path in corpus.FOLDER.glob("*.txt")) < MAX_BYTES


def test_inputs_and_notes_come_back_from_their_file(tmp_path: Path) -> None:
    inputs = [Input(b""), Input(b"abc", "a note of words"), Input(bytes(500)), Input(bytes(range(256)))]
    corpus.write("some", inputs, tmp_path)
    assert corpus.read("some", tmp_path) == inputs
    assert corpus.read("none", tmp_path) == []
