"""A test that hangs is reported by name, and its process ends."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CONFTEST = """
from tests import hangs

hangs.TEARDOWN_S = {}
hangs.BEYOND_S = {}
hangs.END_S = {}


def pytest_configure(config):
    config.pluginmanager.register(hangs)
"""
SHORT, ENOUGH = 4.0, 60.0
"""Seconds: of the limits that a test is about, in which a busy machine still takes a step of a
teardown and reports it, and of the others."""
HANGS_AFTER_A_FAILURE = """
import threading

import pytest


@pytest.fixture
def first():
    yield
    threading.Event().wait()


@pytest.fixture
def second(first):
    yield
    threading.Event().wait()


def test_that_fails(second):
    assert False, "the cause"


def test_after_it():
    pass
"""
HANGS_IN_C = """
import ctypes


def test_that_hangs():
    library, mutex = ctypes.PyDLL(None), ctypes.create_string_buffer(128)  # it keeps the interpreter's lock
    library.pthread_mutex_lock(mutex)
    library.pthread_mutex_lock(mutex)
"""
HANGS_IN_C_AFTER_A_FAILURE = """
import ctypes

import pytest


@pytest.fixture
def stuck():
    yield
    library, mutex = ctypes.PyDLL(None), ctypes.create_string_buffer(128)
    library.pthread_mutex_lock(mutex)
    library.pthread_mutex_lock(mutex)


def test_that_fails(stuck):
    assert False, "the cause"
"""
HANGS_AT_THE_END = """
import threading


def test_that_passes():
    threading.Thread(target=threading.Event().wait).start()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "parallel", [(), pytest.param(("-n", "1", "--max-worker-restart", "0"), marks=pytest.mark.long)]
)
@pytest.mark.parametrize(
    ("tests", "limits", "printed"),
    [
        (
            HANGS_AFTER_A_FAILURE,
            (SHORT, ENOUGH, ENOUGH),
            ("the cause", "ERROR", "1 failed, 1 passed, 1 error"),
        ),
        (HANGS_IN_C, (SHORT, SHORT, ENOUGH), ("Timeout", "in test_that_hangs")),
        (HANGS_IN_C_AFTER_A_FAILURE, (SHORT, SHORT, ENOUGH), ("Timeout", "in stuck")),
        (HANGS_AT_THE_END, (ENOUGH, ENOUGH, SHORT), ("1 passed",)),
    ],
    ids=["teardown", "in C", "in C after a failure", "at the end"],
)
def test_a_hanging_test_is_named_and_ends(
    tmp_path: Path, tests: str, limits: tuple[float, ...], printed: tuple[str, ...], parallel: tuple[str, ...]
) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST.format(*limits))
    (tmp_path / "test_here.py").write_text(tests)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--rootdir",
        str(tmp_path),
        "-c",
        "/dev/null",
        "--timeout",
        "3",
    ]
    ran = subprocess.run(
        [*command, "-p", "no:cacheprovider", *parallel, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    said = ran.stdout + ran.stderr
    assert [each for each in printed if each not in said] == [], said
    ended_by_its_controller = tests == HANGS_AT_THE_END and bool(parallel)
    assert (ran.returncode == 0) == ended_by_its_controller, said
