"""What each role imports until the broker is ready: it costs time at every start, and memory as
long as it runs."""

import json
import os
import subprocess
import sys

import pytest

from kbroker.supervisor.roles import ROLES

STAGES = """
import json, os, sys
import kbroker.cli.serve, kbroker.supervisor.supervisor
from kbroker.supervisor.roles import ROLES

found = {"parent": sorted(sys.modules)}
for role in ROLES:
    if role.late:
        continue
    if not role.alone:
        role.load()
        found[role.name] = sorted(sys.modules)
        continue
    reading, writing = os.pipe()
    if os.fork() == 0:
        role.load()
        with open(writing, "w") as pipe:
            json.dump(sorted(sys.modules), pipe)
        os._exit(0)
    os.close(writing)
    with open(reading) as pipe:
        found[role.name] = json.load(pipe)
    os.wait()
print(json.dumps(found))
"""
MOST = {"parent": 182, "control": 680, "io": 308, "network": 433}
"""Modules in the role's processes beyond the standard library and numpy. Think twice before a
number grows: a module costs each start 0.5 ms or more."""


@pytest.fixture(scope="module")
def modules() -> dict[str, set[str]]:
    """By role, in the order of a start. Kernels stay plain, so that nothing depends on an image."""
    done = subprocess.run(
        [sys.executable, "-c", STAGES],
        env=os.environ | {"KBROKER_NO_KERNELS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    not_ours = sys.stdlib_module_names | {"numpy", "_distutils_hack"}  # the latter by the way of install
    return {
        role: {name for name in names if name.partition(".")[0] not in not_ours}
        for role, names in json.loads(done.stdout).items()
    }


@pytest.mark.parametrize("role", MOST)
def test_a_role_imports_no_more_modules_than_it_did(modules: dict[str, set[str]], role: str) -> None:
    assert len(modules[role]) <= MOST[role], len(modules[role])


def test_every_role_that_a_client_waits_for_is_counted(modules: dict[str, set[str]]) -> None:
    assert set(MOST) == {"parent", *(role.name for role in ROLES if not role.late)} == set(modules)


@pytest.mark.parametrize("role", ["parent", "io", "network"])
def test_groups_and_transactions_are_imported_by_control_alone(
    modules: dict[str, set[str]], role: str
) -> None:
    its = (
        "kbroker.control.groups",
        "kbroker.control.transactions",
        "kbroker.control.share",
        "kbroker.api.regist",
    )
    assert not [name for name in modules[role] if name.startswith(its)]
    assert [name for name in modules["control"] if name.startswith(its)]


@pytest.mark.parametrize("role", MOST)
def test_no_role_imports_what_is_for_compilers_commands_or_scrapes(
    modules: dict[str, set[str]], role: str
) -> None:
    others = {
        "numba",
        "typer",
        "rich",
        "confluent_kafka",
        "prometheus_client",
        "jwt",
        "cryptography",
        "kbroker.http.worker",
        "kbroker.supervisor.linker_memory",
    }
    assert not others & modules[role]


def test_numpy_starts_no_threads_in_a_parent_that_forks() -> None:
    program = (
        "import os, sys, kbroker.cli.serve as serve; "
        "serve.use_kernels = lambda: (__import__('numpy'), os._exit(40 + len(os.listdir('/proc/self/task')))); "
        "serve.serve(None, [])"
    )
    clean = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    assert subprocess.run([sys.executable, "-c", program], env=clean, check=False).returncode == 41
